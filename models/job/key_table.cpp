// Writes the tables of docs/job-file.md from the rows of the keys and of the schedules.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "models/compiler/schedule/schedule.h"
#include "models/job/keys.h"

namespace meshwright::job {

using nlohmann::json;

namespace {

// Limits of this size and larger ones are not documented, because they only exclude absurd numbers.
constexpr double unlimited = 1e9;

std::string range_of(const Range& range, const std::string& number) {
  const auto [low, high, above_low, below_high, by_reader] = range;
  if (high < unlimited) return fmt::format("{} to {}{}", low, below_high ? "below " : "", high);
  if (above_low) return fmt::format("{} above {}", number, low);
  return low > -unlimited ? fmt::format("{} ≥ {}", number, low) : number;
}

std::string in_backticks(const std::vector<std::string>& words) {
  return fmt::format("`{}`", fmt::join(words, " "));
}

struct TypeText {
  const Key& key;

  std::string operator()(const bool*) const { return "bool"; }
  std::string operator()(const double*) const { return range_of(key.range, "number"); }
  template <class Integer>
  std::string operator()(const Integer*) const {
    return range_of(key.range, "integer");
  }
  template <class T>
  std::string operator()(const std::optional<T>*) const {
    return (*this)(static_cast<const T*>(nullptr));
  }
  std::string operator()(const std::string*) const { return "string"; }
  std::string operator()(const std::vector<std::string>*) const { return "list of strings"; }
  std::string operator()(const std::vector<double>*) const {
    return "list of " + range_of(key.range, "numbers");
  }
  std::string operator()(const Choice& choice) const { return in_backticks(choice.words); }
  std::string operator()(Path) const { return "path"; }
  std::string operator()(Paths) const { return "list of paths"; }
  std::string operator()(const Object& object) const {
    return type_of(object.initial()) +
           (object.from_file != nullptr ? ", or the path of such a file" : "");
  }
  std::string operator()(const Code& code) const {
    std::string text = code.type;
    if (const std::size_t at = text.find("{}"); at != std::string::npos)
      text.replace(at, 2, in_backticks(code.words));
    return text;
  }
};

}  // namespace

std::vector<std::string> words_of(const Key& key) {
  if (const auto* choice = std::get_if<Choice>(&key.place)) return choice->words;
  if (const auto* code = std::get_if<Code>(&key.place)) return code->words;
  return {};
}

std::string type_of(const Key& key) {
  return std::visit(TypeText{key}, key.place) + (key.may_be_auto() ? ", *auto*" : "");
}

std::string type_of(const Keys& keys) {
  std::string text;
  for (const Key& key : keys) {
    const std::string standard = default_of(key);
    text += fmt::format("{}{}", text.empty() ? "" : ", ", key.name);
    if (!standard.empty()) text += " [" + standard + "]";
  }
  return "`{" + text + "}`";
}

std::string default_of(const Key& key) {
  if (key.how == How::required) return "required";
  if (!key.default_text.empty()) return std::string(key.default_text);
  const json value = value_of(key);
  if (value.is_null()) return "";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());
  return value.is_array() ? "`" + value.dump() + "`" : value.dump();
}

std::string key_table(const Keys& keys) {
  std::string table = "| key | type | default | meaning and rules |\n|---|---|---|---|\n";
  for (const Key& key : keys) {
    const std::string standard = default_of(key);
    table += fmt::format("| `{}` | {} |{} | {} |\n", key.name, type_of(key),
                         standard.empty() ? "" : " " + standard, key.meaning);
  }
  return table;
}

std::string schedule_table() {
  std::string table = "| schedule | order of a stage's tasks | rules |\n|---|---|---|\n";
  for (const ScheduleInfo& each : schedule_kinds())
    table += fmt::format("| `{}` | {} |{}{} |\n", each.name, each.summary,
                         each.rules.empty() ? "" : " ", each.rules);
  return table;
}

}  // namespace meshwright::job
