// Resolves the variables of shell scripts: $NAME, ${NAME:-default}, NAME=value, $((NAME * 2)).
#include <cctype>

#include "tools/interop/formats/shell_words.h"

namespace meshwright::interop {

// Reads parentheses after a `$`. Returns the value of $((arithmetic)). Returns `$(command)`, and
// arithmetic with unknown variables, unchanged.
std::vector<std::string> ShellWords::in_parentheses(int line) {
  const std::string all = until_closed('(', ')', line);
  if (!all.starts_with("((") || !all.ends_with("))")) return {"$" + all};
  std::string expression;
  for (std::size_t i = 2; i + 2 < all.size();) {
    const char c = all[i];
    if (c == '$' ||
        (is_shell_name_character(c) && std::isdigit(static_cast<unsigned char>(c)) == 0)) {
      if (c == '$') ++i;
      if (i < all.size() && all[i] == '{') ++i;
      std::string name;
      while (i + 2 < all.size() && is_shell_name_character(all[i])) name += all[i++];
      if (i < all.size() && all[i] == '}') ++i;
      const auto known = variables_.find(name);
      if (known == variables_.end() || known->second.size() != 1) return {"$" + all};
      expression += "(" + known->second[0] + ")";
    } else {
      expression += c;
      ++i;
    }
  }
  const std::optional<std::int64_t> value = shell_arithmetic(expression);
  return {value ? std::to_string(*value) : "$" + all};
}

// Reads a variable after a `$`. Returns its values, or the text itself if only the shell knows
// them.
std::vector<std::string> ShellWords::variable(int line) {
  ++at_;
  if (at_ < text_.size() && text_[at_] == '(') return in_parentheses(line);
  std::string name, all = "$";
  bool has_default = false, sets = false;
  std::string fallback;
  if (at_ < text_.size() && text_[at_] == '{') {
    all += until_closed('{', '}', line);
    std::string inside = all.substr(2, all.size() - 3);
    if (const std::size_t colon = inside.find_first_of(":-="); colon != std::string::npos) {
      std::size_t begin = colon + 1;
      if (inside[colon] == ':' && begin < inside.size() &&
          (inside[begin] == '-' || inside[begin] == '='))
        ++begin;
      has_default = inside[colon] != ':' || begin == colon + 2;
      sets = has_default && inside[begin - 1] == '=';
      fallback = inside.substr(begin);
      inside.resize(colon);
    }
    name = inside.substr(0, inside.find('['));
  } else {
    while (at_ < text_.size() && is_shell_name_character(text_[at_])) name += text_[at_++];
    all += name;
  }
  const auto known = variables_.find(name);
  const bool says = known != variables_.end() &&
                    !(has_default && known->second.size() == 1 && known->second[0].empty());
  if (says) return known->second;
  if (has_default) {
    const std::string value = expanded(fallback);
    if (sets) variables_[name] = {value};
    return {value};
  }
  if (name.empty() && at_ < text_.size() && all == "$") return {all + text_[at_++]};
  return {all};
}

// Expands the text after ${NAME:-: removes its quotes and replaces its variables by their values.
std::string ShellWords::expanded(const std::string& text) {
  constexpr int most_texts = 8;
  if (level_ >= most_texts) return text;
  ShellWords inner(text, file_, level_ + 1);
  inner.variables_ = variables_;
  inner.line_ = line_;
  std::string value;
  while (inner.at_ < text.size()) {
    const char c = text[inner.at_];
    std::vector<std::string> parts;
    if (c == '\'')
      parts = {inner.single_quoted(line_)};
    else if (c == '"')
      parts = inner.double_quoted(line_);
    else if (c == '$')
      parts = inner.variable(line_);
    else if (c == '`')
      parts = {inner.backquoted(line_)};
    else
      parts = {std::string(1, text[inner.at_++])};
    for (std::size_t i = 0; i < parts.size(); ++i) value += (i > 0 ? " " : "") + parts[i];
  }
  return value;
}

// Reads an unquoted variable after a `$` and returns its values, split at blanks as a shell does.
// Text that only the shell can resolve stays one word.
std::vector<std::string> ShellWords::variable_words(int line) {
  std::vector<std::string> words;
  for (const std::string& value : variable(line)) {
    const bool is_code = value.starts_with("$") || value.starts_with("`");
    std::size_t at = 0;
    bool any = false;
    while (!is_code && at < value.size()) {
      const std::size_t begin = value.find_first_not_of(" \t\n", at);
      if (begin == std::string::npos) break;
      const std::size_t end = std::min(value.find_first_of(" \t\n", begin), value.size());
      words.push_back(value.substr(begin, end - begin));
      at = end;
      any = true;
    }
    if (is_code || !any) words.push_back(value);
  }
  return words;
}

bool ShellWords::is_assignment(const std::string& word) {
  std::size_t at = 0;
  while (at < word.size() && is_shell_name_character(word[at])) ++at;
  if (at == 0 || at >= word.size() || std::isdigit(static_cast<unsigned char>(word[0])) != 0)
    return false;
  return word[at] == '=' || (word[at] == '+' && at + 1 < word.size() && word[at + 1] == '=');
}

std::vector<std::string> ShellWords::assign(const std::string& word) {
  const std::size_t equals = word.find('=');
  const bool adds = word[equals - 1] == '+';
  const std::string name = word.substr(0, equals - (adds ? 1 : 0));
  const std::string value = word.substr(equals + 1);
  std::vector<std::string> values = {value};
  const bool is_array = !value.empty() && value[0] == '\0';
  if (is_array) values = arrays_.at(std::stoul(value.substr(1, value.find('\0', 1) - 1)));
  std::vector<std::string>& place_of = variables_[name];
  if (adds && is_array)
    place_of.insert(place_of.end(), values.begin(), values.end());
  else if (adds && !place_of.empty())
    place_of.back() += value;
  else
    place_of = values;
  return values;
}

}  // namespace meshwright::interop
