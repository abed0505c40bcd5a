// Writes timelines as the files of --trace.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "models/program/timeline.h"
#include "tools/options.h"

namespace meshwright {

// The formats of --trace-format: `chrome` writes one file, `chakra` writes PREFIX.RANK.et for every
// rank.
enum class TraceFormat : std::uint8_t { chrome, chakra };
// Returns the format. Throws InputError for an unknown word, or if --trace FILE is missing.
TraceFormat trace_format(const Options& options);
// Calls check_writable() for the files that --trace names.
void check_trace(const Options& options, std::span<const std::string> inputs);

// Writes PREFIX.RANK.et for every rank (models/program/chakra.h). `stand_ins[rank]` is the rank
// whose entries it gets.
void write_chakra(const std::string& prefix, const Timeline& timeline,
                  const std::vector<Program>& stages, const std::vector<int>& stand_ins);

}  // namespace meshwright
