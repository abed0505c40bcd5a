// Counts the plans that were not simulated, by reason.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "models/core/violation.h"

namespace meshwright::sim {

// Why a combination is not among the plans found.
enum class Cause : std::uint8_t {
  slower,  // than these, by a lower bound or an estimate
  memory,  // of a GPU or a host, which it does not fit
  limit,   // deadline or budget, beyond which it is
  rule     // about what goes together
};
std::string_view word_of(Cause cause);  // "slower", "memory", "limit", "rule"
Cause cause_of(const Violation& reason);

// The reasons that are no rules about plans, each with its cause.
namespace reasons {
extern const Violation no_memory, no_host_memory;
extern const Violation too_slow, slow_alone, slow_bubble, slow_communication, not_simulated;
extern const Violation misses_deadline, exceeds_budget;
}  // namespace reasons

// How many combinations each reason rejects. A reason that is no rule about plans, such as a bound,
// has a statement only.
using Rejections = std::map<Violation, std::int64_t>;

// Returns the reasons as messages. Violations that differ in whole numbers only become one, in
// which each number is the range from its least to its largest value: "zero_stage 2 with 8
// micro-batches" and "... with 64 micro-batches" become "zero_stage 2 with 8 to 64 micro-batches".
std::map<std::string, std::int64_t> with_ranges(const Rejections& reasons);

}  // namespace meshwright::sim
