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
// Checks that the files of --trace can be written (check_writable()). For chakra it checks PREFIX
// itself and PREFIX.0.et.
void check_trace(const Options& options, std::span<const std::string> inputs);

// Writes PREFIX.RANK.et for every rank (models/program/chakra.h). `stand_ins[rank]` is the rank
// whose entries it gets. Throws InputError if one of the files cannot be written.
void write_chakra(const std::string& prefix, const Timeline& timeline,
                  const std::vector<Program>& stages, const std::vector<int>& stand_ins);

}  // namespace meshwright::tools
