#include "sim/planner/rejections.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <utility>
#include <vector>

#include "models/core/error.h"

namespace meshwright::sim {

namespace reasons {

const Violation no_memory{.statement = "does not fit in memory"};
const Violation no_host_memory{.statement = "what is offloaded does not fit in the hosts' memory"};
const Violation too_slow{.statement = "slower than the plans found (lower bound)"};
const Violation slow_alone{.statement =
                               "slower than the plans found: computation alone takes longer"};
const Violation slow_bubble{.statement = "slower than the plans found: stages are idle (bubble)"};
const Violation slow_communication{.statement = "slower than the plans found: communication"};
const Violation not_simulated{.statement = "estimated slower than the simulated plans"};
const Violation misses_deadline{.statement = "misses the deadline"};
const Violation exceeds_budget{.statement = "exceeds the budget"};

}  // namespace reasons

std::string_view word_of(Cause cause) {
  constexpr std::string_view words[] = {"slower", "memory", "limit", "rule"};
  static_assert(std::size(words) == static_cast<std::size_t>(Cause::rule) + 1);
  return words[static_cast<std::size_t>(cause)];
}

Cause cause_of(const Violation& reason) {
  using namespace reasons;
  const auto is_one_of = [&](std::initializer_list<const Violation*> all) {
    return std::ranges::any_of(all, [&](const Violation* each) { return *each == reason; });
  };
  if (is_one_of({&no_memory, &no_host_memory})) return Cause::memory;
  if (is_one_of({&misses_deadline, &exceeds_budget})) return Cause::limit;
  return is_one_of({&too_slow, &slow_alone, &slow_bubble, &slow_communication, &not_simulated})
             ? Cause::slower
             : Cause::rule;
}

namespace {

struct Range {
  std::int64_t least, largest;
};
struct Merged {
  std::vector<Range> numbers;
  std::int64_t count = 0;
};

// Returns the whole numbers of a violation and of its choices, and sets them to 0, so that
// violations of the same rule are equal.
std::vector<std::int64_t> take_numbers(Violation& violation) {
  std::vector<std::int64_t> numbers;
  for (Violation::Value& value : violation.values)
    if (auto* number = std::get_if<std::int64_t>(&value))
      numbers.push_back(std::exchange(*number, 0));
  for (std::int64_t& choice : violation.choices) numbers.push_back(std::exchange(choice, 0));
  return numbers;
}

std::string text_of(const Range& range) {
  const std::string least = std::to_string(range.least);
  return range.least == range.largest ? least : least + " to " + std::to_string(range.largest);
}

// Returns the message of a violation whose numbers were taken, with `ranges` in place of the
// numbers.
std::string text_with(Violation violation, const std::vector<Range>& ranges) {
  auto range = ranges.begin();
  for (Violation::Value& value : violation.values)
    if (std::holds_alternative<std::int64_t>(value)) value = text_of(*range++);
  std::vector<std::string> choices;
  while (range != ranges.end()) choices.push_back(text_of(*range++));
  violation.choices.clear();
  return text_of(violation) + list_of(choices);
}

}  // namespace

std::map<std::string, std::int64_t> with_ranges(const Rejections& reasons) {
  std::map<Violation, Merged> rules;
  for (const auto& [reason, count] : reasons) {
    Violation rule = reason;
    const std::vector<std::int64_t> numbers = take_numbers(rule);
    Merged& merged = rules[std::move(rule)];
    if (merged.numbers.empty())
      for (const std::int64_t number : numbers) merged.numbers.push_back({number, number});
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      Range& range = merged.numbers[i];
      range = {std::min(range.least, numbers[i]), std::max(range.largest, numbers[i])};
    }
    merged.count += count;
  }
  std::map<std::string, std::int64_t> all;
  for (const auto& [rule, merged] : rules) all[text_with(rule, merged.numbers)] += merged.count;
  return all;
}

}  // namespace meshwright::sim
