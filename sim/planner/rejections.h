// Counts the plans that were not simulated, by reason.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace meshwright {

using Rejections = std::map<std::string, std::int64_t>;  // reason -> combinations

// Reasons that differ in whole numbers only become one, which has the least and the largest of
// each: "zero_stage 2 with 8 micro-batches" and "... with 64 micro-batches" are "zero_stage 2 with
// 8 to 64 micro-batches".
Rejections with_ranges(const Rejections& reasons);

}  // namespace meshwright
