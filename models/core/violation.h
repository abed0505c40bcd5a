// Describes a fault of an input as data. Its message is made where it is shown, so that code need
// not parse texts: the reader of jobs tries out the choices, an import names the setting behind the
// key, and the planner counts violations and joins their numbers.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "models/core/rooms.h"

namespace meshwright::core {

struct Violation {
  using Value = std::variant<std::int64_t, std::string>;

  std::string file = {};  // empty if the rule does not know the file
  std::string key = {};   // a JSON pointer, "/parallelism/tensor"; empty: about no single key
  // The message of the rule, with braces that the values replace: "{} does not divide {} {}; use ".
  std::string statement = {};
  std::vector<Value> values = {};
  // Values of the key that satisfy the rule. They are listed at the end of the message.
  std::vector<std::int64_t> choices = {};
  bool not_yet = false;  // legal, but this version cannot do it

  auto operator<=>(const Violation&) const = default;
};

using Ruling = std::optional<Violation>;  // empty if no rule is broken

// Returns the violation with the name `file`, unless it names a file already.
Violation in_file(const std::string& file, Violation violation);

// Returns what is wrong and what would be right: "5 does not divide 12 heads; use 1, 2 or 3".
std::string problem_of(const Violation& violation);
// Returns the message: "gpt2.json: /parallelism/tensor: 5 does not divide 12 heads; use 1, 2 or 3".
std::string text_of(const Violation& violation);

inline Violation::Value as_value(std::int64_t number) { return number; }
inline Violation::Value as_value(int number) { return std::int64_t{number}; }
inline Violation::Value as_value(std::string_view word) { return std::string(word); }
Violation::Value as_value(double number);  // returns the shortest decimal text, as a word

// Returns a violation of a rule about `key`. The values replace the braces in `statement`.
template <class... Values>
Violation broken(std::string_view key, std::string_view statement, const Values&... values) {
  return {.key = std::string(key),
          .statement = std::string(statement),
          .values = {as_value(values)...}};
}

// Returns a violation whose `choices` are the values of `key` that satisfy the rule.
template <class... Values>
Violation wrong_choice(std::vector<std::int64_t> choices, std::string_view key,
                       std::string_view statement, const Values&... values) {
  Violation violation = broken(key, statement, values...);
  violation.choices = std::move(choices);
  return violation;
}

// Returns a violation for an input that is legal, but that this version does not support yet.
template <class... Values>
Violation unsupported(std::string_view key, std::string_view statement, const Values&... values) {
  Violation violation = broken(key, statement, values...);
  violation.not_yet = true;
  return violation;
}

}  // namespace meshwright::core
