// Counts the plans that were not simulated, by reason.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "models/core/violation.h"

namespace meshwright::sim {

// How many combinations each reason rejects. A reason that is no rule about plans, such as a bound,
// has a statement only.
using Rejections = std::map<Violation, std::int64_t>;

// Returns the reasons as messages. Violations that differ in whole numbers only become one, in
// which each number is the range from its least to its largest value: "zero_stage 2 with 8
// micro-batches" and "... with 64 micro-batches" become "zero_stage 2 with 8 to 64 micro-batches".
std::map<std::string, std::int64_t> with_ranges(const Rejections& reasons);

}  // namespace meshwright::sim
