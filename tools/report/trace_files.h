// Timelines as the files of --trace.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "models/program/timeline.h"
#include "tools/options.h"

namespace meshwright {

// What --trace-format asks for: `chrome` is one file, `chakra` is PREFIX.RANK.et for every rank.
enum class TraceFormat : std::uint8_t { chrome, chakra };
// InputError: an unknown word, or no --trace FILE beside it.
TraceFormat trace_format(const Options& options);
// check_writable() of what --trace names.
void check_trace(const Options& options, std::span<const std::string> inputs);

// PREFIX.RANK.et for every rank (models/program/chakra.h); `stand_ins[rank]` has its entries.
void write_chakra(const std::string& prefix, const Timeline& timeline,
                  const std::vector<Program>& stages, const std::vector<int>& stand_ins);

}  // namespace meshwright
