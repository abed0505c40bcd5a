#include "tools/interop/shell/variables.h"

#include <algorithm>
#include <utility>

#include "models/core/error.h"
#include "tools/interop/shell/expansion.h"

namespace meshwright::interop {

namespace {

constexpr std::size_t most_items = 10'000, most_letters = 1'000'000;

}  // namespace

void ShellVariables::define(const std::string& name, const std::string& value) {
  if (!name.empty() && name.find_first_not_of("0123456789") == std::string::npos) {
    const auto at = static_cast<std::size_t>(std::stoi(name.substr(0, 3)));
    if (at == 0) return;
    if (positional.size() < at) positional.resize(at);
    positional[at - 1] = value;
    return;
  }
  variables_[name] = {{{value, 0}}, {}};
  defined_.insert(name);
}

void ShellVariables::set(const std::string& name, const std::string& value, int line) {
  if (defined_.contains(name)) return;
  missing_doubts_.erase(name);
  variables_[name] = {{{value, line, index_}}, {}};
}

const ShellVariable* ShellVariables::find(const std::string& name) const {
  const auto found = variables_.find(name);
  return found == variables_.end() ? nullptr : &found->second;
}

void ShellVariables::doubt(const std::string& name, const ShellDoubts& doubts) {
  if (defined_.contains(name)) return;
  const auto found = variables_.find(name);
  (found == variables_.end() ? missing_doubts_[name] : found->second.doubts)
      .insert(doubts.begin(), doubts.end());
}

ShellDoubts ShellVariables::take_doubts() { return std::exchange(doubts_, {}); }

std::vector<ShellWord> ShellVariables::words_of(const ShellText& word) {
  return Expansion(*this, word.raw, word.line).words(true);
}

std::string ShellVariables::text_of(const ShellText& word) {
  std::string text;
  bool is_first = true;
  for (const ShellWord& each : Expansion(*this, word.raw, word.line).words(false)) {
    text += (is_first ? "" : " ") + each.text;
    is_first = false;
  }
  return text;
}

std::string ShellVariables::text_of(const ShellDocument& document) {
  if (document.is_literal) return document.text;
  return Expansion(*this, document.text, document.line).document();
}

std::optional<std::string> ShellVariables::known_text_of(const ShellText& word) {
  missing_is_empty_ = true;
  is_open_ = false;
  std::string text = text_of(word);
  missing_is_empty_ = false;
  return is_open_ ? std::nullopt : std::optional(std::move(text));
}

std::string ShellVariables::assign(const ShellText& word, const ShellDoubts& doubts) {
  const std::size_t equals = word.raw.find('=');
  const bool adds = word.raw[equals - 1] == '+';
  std::string name = word.raw.substr(0, equals - (adds ? 1 : 0)), subscript;
  const std::string value = word.raw.substr(equals + 1);
  if (const std::size_t bracket = name.find('['); bracket != std::string::npos) {
    subscript = name.substr(bracket + 1, name.size() - bracket - 2);
    name.resize(bracket);
  }
  if (defined_.contains(name)) return name;
  const ShellDoubts before = take_doubts();
  const bool is_array = value.starts_with('(') && value.ends_with(')');
  std::vector<ShellWord> items;
  if (is_array) {
    for (const ShellText& each : shell_words(value.substr(1, value.size() - 2), file_, word.line)) {
      const std::size_t key = each.raw.starts_with('[') ? each.raw.find("]=") : std::string::npos;
      const ShellText item =
          key == std::string::npos ? each : ShellText{each.raw.substr(key + 2), each.line};
      for (ShellWord& part : words_of(item)) items.push_back(std::move(part));
    }
  } else {
    items.push_back({text_of(ShellText{value, word.line}), word.line, index_});
  }
  ShellVariable& variable = variables_[name];
  if (!subscript.empty()) {
    // A subscript without a numeric value, such as a key of an associative array, counts as 0.
    const std::int64_t place = arithmetic(subscript).value_or(0);
    const auto at = static_cast<std::size_t>(std::clamp<std::int64_t>(place, 0, most_items - 1));
    if (variable.items.size() <= at) variable.items.resize(at + 1);
    if (!items.empty()) variable.items[at] = items[0];
  } else if (adds && is_array) {
    variable.items.insert(variable.items.end(), items.begin(), items.end());
  } else if (adds && !variable.items.empty()) {
    variable.items.back().text += items[0].text;
  } else {
    variable = {std::move(items), {}};
  }
  missing_doubts_.erase(name);
  const ShellDoubts of_value = take_doubts();
  variable.doubts.insert(of_value.begin(), of_value.end());
  variable.doubts.insert(doubts.begin(), doubts.end());
  doubts_ = before;
  const bool is_long = std::ranges::any_of(
      variable.items, [](const ShellWord& each) { return each.text.size() > most_letters; });
  if (variable.items.size() > most_items || is_long)
    throw InputError(file_ + ":" + std::to_string(word.line) + ": " + name +
                     " is longer than a command line can be");
  return name;
}

std::optional<std::int64_t> ShellVariables::arithmetic(std::string_view expression,
                                                       std::string* unknown) {
  std::string text, rest;
  bool is_known = true;
  for (std::size_t i = 0; i < expression.size();) {
    const char c = expression[i];
    const bool is_name = is_shell_name_character(c) && (c < '0' || c > '9');
    if (c != '$' && !is_name) {
      // Digits, operators and blanks are copied.
      text += c;
      rest += c;
      ++i;
      continue;
    }
    if (c == '$') ++i;
    const bool braces = i < expression.size() && expression[i] == '{';
    if (braces) ++i;
    std::string name;
    while (i < expression.size() && is_shell_name_character(expression[i])) name += expression[i++];
    std::string all = "${" + name;
    while (braces && i < expression.size() && expression[i] != '}') all += expression[i++];
    if (braces) ++i;
    if (name.empty()) return std::nullopt;
    const std::string value = text_of(ShellText{all + "}", 0});
    if (value.empty() || value.find_first_not_of("-0123456789 ") != std::string::npos) {
      is_known = false;
      rest += all + "}";
      continue;
    }
    text += "(" + value + ")";
    rest += value;
  }
  if (is_known) return shell_arithmetic(text);
  if (unknown != nullptr) *unknown = rest;
  return std::nullopt;
}

}  // namespace meshwright::interop
