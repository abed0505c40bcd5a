#include "tools/interop/shell/written_files.h"

#include <sstream>

#include "tools/interop/shell/starters.h"

namespace meshwright::interop {

namespace {

struct Substitution {
  std::string word, value;
  bool is_global = false;
};

// Returns the part of an expression from `at` to the next delimiter, without its backslashes, and
// moves `at` after the delimiter. Returns nothing if no delimiter follows, if one of `signs` has no
// backslash before it, or if a backslash is before a character that is neither a sign nor the
// delimiter nor a dot.
std::optional<std::string> part_of(const std::string& expression, std::size_t& at, char delimiter,
                                   std::string_view signs) {
  std::string part;
  for (; at < expression.size() && expression[at] != delimiter; ++at) {
    const bool is_escaped = expression[at] == '\\';
    if (is_escaped && ++at >= expression.size()) return std::nullopt;
    const bool is_sign = signs.find(expression[at]) != std::string_view::npos;
    if (is_escaped && !is_sign && expression[at] != delimiter && expression[at] != '.')
      return std::nullopt;
    if (!is_escaped && is_sign) return std::nullopt;
    part += expression[at];
  }
  if (at >= expression.size()) return std::nullopt;
  ++at;
  return part;
}

std::optional<Substitution> substitution_in(const std::string& expression) {
  if (expression.size() < 4 || expression[0] != 's') return std::nullopt;
  const char delimiter = expression[1];
  std::size_t at = 2;
  const auto word = part_of(expression, at, delimiter, "[]*^$");
  if (!word || word->empty()) return std::nullopt;
  // A value may hold `$`, because it may be a $(command) that only the shell knows.
  const auto value = part_of(expression, at, delimiter, "&");
  if (!value) return std::nullopt;
  const std::string flags = expression.substr(at);
  if (!flags.empty() && flags != "g") return std::nullopt;
  return Substitution{*word, *value, flags == "g"};
}

}  // namespace

std::optional<std::string> substituted_by_sed(const std::string& text,
                                              const std::string& expression) {
  const auto change = substitution_in(expression);
  if (!change) return std::nullopt;
  std::string all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line); all += line + "\n")
    for (std::size_t at = 0; (at = line.find(change->word, at)) != std::string::npos;) {
      line.replace(at, change->word.size(), change->value);
      at += change->value.size();
      if (!change->is_global) break;
    }
  return all;
}

std::optional<std::string> WrittenFiles::text_of(const std::string& path) const {
  if (const auto own = files_.find(path); own != files_.end()) return own->second;
  return beside_ ? beside_(path) : std::nullopt;
}

// Returns what sed prints, or nothing if that is not known. With -i it prints nothing and changes
// its file.
std::optional<std::string> WrittenFiles::edited(const std::vector<std::string>& words,
                                                const std::optional<std::string>& input) {
  std::vector<std::string> expressions, others;
  bool is_in_place = false, has_option = false;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    if ((word == "-e" || word == "--expression") && i + 1 < words.size()) {
      expressions.push_back(words[++i]);
      has_option = true;
    } else if (word.starts_with("-i") || word == "--in-place") {
      is_in_place = true;
    } else if (word.starts_with('-')) {
      if (word != "-E" && word != "-r" && word != "-u") return std::nullopt;
    } else {
      others.push_back(word);
    }
  }
  if (!has_option && !others.empty()) {
    expressions.push_back(others.front());
    others.erase(others.begin());
  }
  auto text = others.empty() ? input : text_of(others.front());
  for (const std::string& expression : expressions)
    if (text) text = substituted_by_sed(*text, expression);
  if (!is_in_place) return text;
  if (text && !others.empty()) files_[others.front()] = *text;
  return std::nullopt;
}

std::optional<std::string> WrittenFiles::printed(const std::vector<std::string>& words,
                                                 const std::optional<std::string>& input) {
  const std::string program = program_of(words.front());
  if (program == "sed") return edited(words, input);
  if (program == "tee") {
    for (std::size_t i = 1; i < words.size(); ++i)
      if (input && !words[i].starts_with('-')) files_[words[i]] = *input;
    return input;
  }
  if (program != "cat") return std::nullopt;
  if (words.size() == 1 || words[1] == "-") return input;
  std::string text;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const auto part = text_of(words[i]);
    if (!part) return std::nullopt;
    text += *part;
  }
  return text;
}

void WrittenFiles::perform(const std::vector<std::string>& words,
                           const std::optional<std::string>& document,
                           const std::vector<std::string>& outputs, bool is_piped) {
  printed_ = printed(words, document ? document : is_piped ? printed_ : std::nullopt);
  if (!printed_) return;
  for (const std::string& output : outputs) files_[output] = *printed_;
}

}  // namespace meshwright::interop
