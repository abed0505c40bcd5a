#include "sim/planner/rejections.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "models/core/error.h"

namespace meshwright::sim {

namespace {

struct Range {
  std::int64_t least, largest;
};
struct Merged {
  std::vector<Range> numbers;
  std::int64_t count = 0;
};

// Returns the whole numbers of a violation and its choices, and sets them to 0, so that violations
// of a rule are equal.
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

// Returns the message of a violation whose numbers were taken, with ranges in their places.
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
