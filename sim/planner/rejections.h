// Counts the plans that were not simulated, by reason.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace meshwright {

using Rejections = std::map<std::string, std::int64_t>;  // reason -> combinations

// Merges reasons that differ in whole numbers only. Each number becomes the range from its least to
// its largest value: "zero_stage 2 with 8 micro-batches" and "... with 64 micro-batches" become
// "zero_stage 2 with 8 to 64 micro-batches".
Rejections with_ranges(const Rejections& reasons);

}  // namespace meshwright
