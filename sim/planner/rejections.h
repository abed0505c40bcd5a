// Counts the combinations of choices that are not among the plans found, by reason.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "models/core/violation.h"

namespace meshwright::sim {

// Why a combination of choices is not among the plans found.
enum class Cause : std::uint8_t {
  slower,  // slower than the plans found, by a lower bound or an estimate
  memory,  // does not fit in the memory of a GPU or a host
  limit,   // misses the deadline or exceeds the budget
  rule     // breaks a rule about plans, or a limit of a framework
};
std::string_view word_of(Cause cause);  // "slower", "memory", "limit", "rule"
Cause cause_of(const Violation& reason);

// The reasons that are not rules about plans. cause_of() knows the cause of each.
namespace reasons {
extern const Violation no_memory, no_host_memory;
extern const Violation too_slow, slow_alone, slow_bubble, slow_communication, not_simulated;
extern const Violation misses_deadline, exceeds_budget;
}  // namespace reasons

// The number of combinations that each reason rejects. A reason that is not a rule about plans,
// such as a bound, has a statement only.
using Rejections = std::map<Violation, std::int64_t>;

// Returns the reasons as messages, with their counts. Violations that differ in whole numbers only
// become one, in which each number is the range from its least to its largest value: "zero_stage 2
// with 8 micro-batches" and "... with 64 micro-batches" become "zero_stage 2 with 8 to 64
// micro-batches".
std::map<std::string, std::int64_t> with_ranges(const Rejections& reasons);

}  // namespace meshwright::sim
