// Writes timelines as the files of --trace.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "models/program/timeline.h"
#include "tools/options.h"

namespace meshwright::tools {

// Returns the format, which is chrome without --trace-format. Throws InputError if --trace-format
// names an unknown format or is given without --trace.
TraceFormat trace_format(const Options& options);
// Throws InputError if the files of --trace cannot be written (check_writable()). For chakra it
// checks PREFIX itself and PREFIX.0.et.
void check_trace(const Options& options, std::span<const std::string> inputs);

// Writes PREFIX.RANK.et for every rank (models/program/chakra.h). The entries of a rank are those
// of rank `stand_ins[rank]`. Throws InputError, before it writes any file, if one of them cannot be
// written.
void write_chakra(const std::string& prefix, const Timeline& timeline,
                  const std::vector<Program>& stages, const std::vector<int>& stand_ins);

}  // namespace meshwright::tools
