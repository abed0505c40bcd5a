#include "models/core/violation.h"

#include <fmt/format.h>

#include "models/core/error.h"

namespace meshwright::core {

namespace {

std::string text_of(const Violation::Value& value) {
  const auto* number = std::get_if<std::int64_t>(&value);
  return number != nullptr ? std::to_string(*number) : std::get<std::string>(value);
}

}  // namespace

Violation in_file(const std::string& file, Violation violation) {
  if (violation.file.empty()) violation.file = file;
  return violation;
}

std::string problem_of(const Violation& violation) {
  const std::string& statement = violation.statement;
  std::string text;
  std::size_t begin = 0;
  for (const Violation::Value& value : violation.values) {
    const std::size_t brace = statement.find("{}", begin);
    MESHWRIGHT_CHECK(brace != std::string::npos, "a statement has braces for each of its values");
    text += statement.substr(begin, brace - begin) + text_of(value);
    begin = brace + 2;
  }
  std::vector<std::string> choices;
  for (const std::int64_t choice : violation.choices) choices.push_back(std::to_string(choice));
  return text + statement.substr(begin) + list_of(choices);
}

std::string text_of(const Violation& violation) {
  std::string text;
  for (const std::string& part : {violation.file, violation.key})
    if (!part.empty()) text += part + ": ";
  return printable(text + problem_of(violation));
}

Violation::Value as_value(double number) { return fmt::format("{}", number); }

}  // namespace meshwright::core
