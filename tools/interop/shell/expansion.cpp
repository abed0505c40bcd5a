#include "tools/interop/shell/expansion.h"

#include <fnmatch.h>

#include <algorithm>
#include <cctype>

#include "models/core/error.h"

namespace meshwright::interop {

namespace {

constexpr int most_levels = 16;  // most texts that are expanded inside of each other

// Returns `value` without the shortest or the longest part at its begin or at its end that matches
// `pattern`. Returns `value` if no part matches.
std::string without(const std::string& value, const std::string& pattern, bool at_end,
                    bool longest) {
  for (std::size_t i = 0; i <= value.size(); ++i) {
    const std::size_t length = longest ? value.size() - i : i;
    const std::string part = at_end ? value.substr(value.size() - length) : value.substr(0, length);
    if (fnmatch(pattern.c_str(), part.c_str(), 0) == 0)
      return at_end ? value.substr(0, value.size() - length) : value.substr(length);
  }
  return value;
}

// Returns the end of the $(command) or `command` that begins at `at`, or `at` if none does. A
// command whose output is unknown stays as its text, and blanks in it separate no words.
std::size_t end_of_command(const std::string& text, std::size_t at) {
  if (text[at] == '`') {
    const std::size_t close = text.find('`', at + 1);
    return close == std::string::npos ? at : close + 1;
  }
  if (text.compare(at, 2, "$(") != 0) return at;
  int open = 0;
  for (std::size_t i = at + 1; i < text.size(); ++i) {
    if (text[i] == '(') ++open;
    if (text[i] == ')' && --open == 0) return i + 1;
  }
  return at;
}

}  // namespace

void ShellVariables::Expansion::add(std::string_view text) {
  if (!is_in_word_) found_.push_back({{}, line_, file_});
  is_in_word_ = true;
  found_.back().text += text;
}

std::string ShellVariables::Expansion::inner(const std::string& text) const {
  if (of_.levels_ >= most_levels) return text;
  ++of_.levels_;
  std::string value = of_.text_of(ShellText{text, line_});
  --of_.levels_;
  return value;
}

std::vector<ShellWord> ShellVariables::Expansion::words(bool splits) {
  splits_ = splits;
  while (at_ < raw_.size()) {
    const char c = raw_[at_];
    if (c == '\\') {
      if (at_ + 1 < raw_.size() && raw_[at_ + 1] != '\n') add(raw_.substr(at_ + 1, 1));
      at_ += 2;
    } else if (c == '\'') {
      const std::size_t end = std::min(raw_.find('\'', at_ + 1), raw_.size());
      add(raw_.substr(at_ + 1, end - at_ - 1));
      at_ = end + 1;
    } else if (c == '"') {
      double_quoted();
    } else if (c == '$' && raw_.compare(at_ + 1, 1, "'") == 0) {
      ++at_;  // $'text' is read as 'text'
    } else if (c == '$') {
      dollar(false);
    } else if (c == '`') {
      int line = line_;
      const std::size_t end = end_of_quote(raw_, at_, line, of_.file_);
      const std::string all = raw_.substr(at_, end - at_);
      at_ = end;
      const auto printed = printed_by(all.substr(1, all.size() - 2), line_, of_);
      if (!printed) of_.is_open_ = true;
      printed ? add_split({*printed, line_}) : add(all);
    } else {
      add(std::string_view(&c, 1));
      if (c == '\n') ++line_;
      ++at_;
    }
  }
  return std::move(found_);
}

std::string ShellVariables::Expansion::document() {
  splits_ = false;
  std::string text;
  while (at_ < raw_.size()) {
    const char c = raw_[at_];
    if (c == '$') {
      dollar(true);
    } else if (c == '\\' && at_ + 1 < raw_.size() &&
               (raw_[at_ + 1] == '$' || raw_[at_ + 1] == '\\' || raw_[at_ + 1] == '`')) {
      add(raw_.substr(at_ + 1, 1));
      at_ += 2;
    } else {
      add(std::string_view(&c, 1));
      ++at_;
    }
  }
  for (std::size_t i = 0; i < found_.size(); ++i) text += (i > 0 ? " " : "") + found_[i].text;
  return text;
}

// Expands "text". A quoted list without items, such as "$@" without arguments, adds no word if
// nothing else is between the quotes.
void ShellVariables::Expansion::double_quoted() {
  const bool begins_word = !is_in_word_;
  is_empty_list_ = false;
  add("");
  for (++at_; at_ < raw_.size() && raw_[at_] != '"';) {
    const char c = raw_[at_];
    if (c == '$') {
      dollar(true);
      continue;
    }
    if (c == '\\' && at_ + 1 < raw_.size()) {
      ++at_;
      if (raw_[at_] == '\n') {
        ++line_;
        ++at_;
        continue;
      }
      if (std::string_view("$`\"\\").find(raw_[at_]) == std::string_view::npos) add("\\");
    }
    if (raw_[at_] == '\n') ++line_;
    add(raw_.substr(at_, 1));
    ++at_;
  }
  ++at_;
  if (begins_word && is_empty_list_ && found_.back().text.empty()) {
    found_.pop_back();
    end_word();
  }
}

void ShellVariables::Expansion::add_split(const ShellWord& value) {
  const int line = line_, file = file_;
  if (value.line > 0) {
    line_ = value.line;
    file_ = value.file;
  }
  if (!splits_) {
    add(value.text);
  } else {
    std::size_t unknown_until = 0;
    for (std::size_t i = 0; i < value.text.size(); ++i) {
      const char c = value.text[i];
      if (i >= unknown_until) unknown_until = end_of_command(value.text, i);
      if (i >= unknown_until && (c == ' ' || c == '\t' || c == '\n'))
        end_word();
      else
        add(std::string_view(&c, 1));
      if (c == '\n' && value.line > 0) ++line_;
    }
  }
  line_ = line;
  file_ = file;
}

void ShellVariables::Expansion::add_items(const std::vector<ShellWord>& items, bool quoted,
                                          bool every) {
  is_empty_list_ = items.empty() && every;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0 && every) end_word();
    if (i > 0 && !every) add(" ");
    const int line = line_, file = file_;
    if (items[i].line > 0) {
      line_ = items[i].line;
      file_ = items[i].file;
    }
    quoted ? add(items[i].text) : add_split(items[i]);
    line_ = line;
    file_ = file;
  }
}

void ShellVariables::Expansion::add_missing(const std::string& name, const std::string& all) {
  if (const auto known = of_.missing_doubts_.find(name); known != of_.missing_doubts_.end())
    of_.doubts_.insert(known->second.begin(), known->second.end());
  if (!of_.missing_is_empty_) return add(all);
  if (name == "#")
    of_.doubts_.insert("the script's arguments are not given; --define 1=VALUE says the first one");
  else
    of_.doubts_.insert("$" + name + " is not given and taken as empty; --define " + name +
                       "=VALUE says it");
}

std::optional<std::vector<ShellWord>> ShellVariables::Expansion::items_of(const std::string& name) {
  if (name == "@" || name == "*") {
    std::vector<ShellWord> all;
    for (const std::string& each : of_.positional) all.push_back({each, 0});
    return all;
  }
  if (name == "#" && of_.missing_is_empty_ && of_.positional.empty()) return std::nullopt;
  if (name == "#") return {{{std::to_string(of_.positional.size()), 0}}};
  if (name == "?") return {{{"0", 0}}};
  if (name == "RANDOM" && of_.find(name) == nullptr) return {{{"1", 0}}};  // seeds and ports
  if (name.find_first_not_of("0123456789") == std::string::npos && name.size() < 4) {
    const auto at = static_cast<std::size_t>(std::stoi(name));
    if (at == 0) return {{{of_.file_, 0}}};
    if (at > of_.positional.size()) return std::nullopt;
    return {{{of_.positional[at - 1], 0}}};
  }
  const ShellVariable* known = of_.find(name);
  if (known == nullptr) return std::nullopt;
  of_.doubts_.insert(known->doubts.begin(), known->doubts.end());
  return known->items;
}

// Returns NAME if a text is nothing but $NAME or ${NAME} and this variable is not set, otherwise an
// empty string.
std::string ShellVariables::Expansion::missing_in(const std::string& text) {
  if (text.size() < 2 || text[0] != '$') return {};
  std::string name = text.substr(1);
  if (name.starts_with('{') && name.ends_with('}')) name = name.substr(1, name.size() - 2);
  if (name.empty() || !std::ranges::all_of(name, is_shell_name_character) || items_of(name))
    return {};
  return name;
}

// Adds the value of $NAME, or of ${NAME[SUBSCRIPT]}. If there is none, add_missing() decides what
// is added.
void ShellVariables::Expansion::value_of(const std::string& name, const std::string& subscript,
                                         const std::string& all, bool quoted) {
  const auto items = items_of(name);
  if (!items) return add_missing(name, all);
  if (name == "@" || name == "*" || subscript == "@" || subscript == "*") {
    const bool joins = quoted && (name == "*" || subscript == "*");
    return add_items(*items, quoted, !joins);
  }
  if (items->empty()) return;
  std::size_t at = 0;
  if (!subscript.empty()) {
    const auto place = of_.arithmetic(subscript);
    if (!place || *place < 0 || *place >= static_cast<std::int64_t>(items->size()))
      return add_missing(name, all);
    at = static_cast<std::size_t>(*place);
  }
  const ShellWord& value = (*items)[at];
  if (const std::string missing = missing_in(value.text); of_.missing_is_empty_ && !missing.empty())
    return add_missing(missing, all);
  if (quoted || value.text.starts_with("$(") || value.text.starts_with('`'))
    add(value.text);
  else
    add_split(value);
  if (value.text.find('$') != std::string::npos || value.text.find('`') != std::string::npos)
    of_.is_open_ = true;
}

void ShellVariables::Expansion::dollar(bool quoted) {
  ++at_;
  if (at_ >= raw_.size()) return add("$");
  if (raw_[at_] == '(') return parentheses(quoted);
  if (raw_[at_] == '{') return braces(quoted);
  std::string name;
  if (std::string_view("@*#?0123456789").find(raw_[at_]) != std::string_view::npos)
    name = raw_.substr(at_++, 1);
  else
    while (at_ < raw_.size() && is_shell_name_character(raw_[at_])) name += raw_[at_++];
  if (name.empty()) {
    of_.is_open_ = true;
    add("$");
    if (at_ < raw_.size() && (raw_[at_] == '$' || raw_[at_] == '!')) add(raw_.substr(at_++, 1));
    return;
  }
  value_of(name, "", "$" + name, quoted);
}

// Expands $(command) and $((arithmetic)).
void ShellVariables::Expansion::parentheses(bool quoted) {
  int line = line_;
  const std::size_t end = end_of_brackets(raw_, at_, line, of_.file_);
  const std::string all = raw_.substr(at_, end - at_);
  at_ = end;
  std::optional<std::string> value;
  std::string unknown = all;
  if (of_.levels_ < most_levels) {
    ++of_.levels_;
    if (all.starts_with("((") && all.ends_with("))")) {
      std::string expression;
      if (const auto number =
              of_.arithmetic(std::string_view(all).substr(2, all.size() - 4), &expression))
        value = std::to_string(*number);
      else if (!expression.empty())
        unknown = "((" + expression + "))";
    } else {
      value = printed_by(all.substr(1, all.size() - 2), line_, of_);
    }
    --of_.levels_;
  }
  line_ = line;
  if (!value) {
    of_.is_open_ = true;
    return add("$" + unknown);
  }
  quoted ? add(*value) : add_split({*value, line_});
}

// Returns `value` changed by the text after its name in braces: %.py, ##*/, /a/b, :0:3, ^^. The
// /a/b form takes `a` literally and not as a pattern.
std::string ShellVariables::Expansion::changed(std::string value, const std::string& how) {
  const std::size_t twice = how.size() > 1 && how[1] == how[0] ? 2 : 1;
  switch (how[0]) {
    case '%':
    case '#':
      return without(value, inner(how.substr(twice)), how[0] == '%', twice == 2);
    case '^':
      std::ranges::transform(value, value.begin(), [](unsigned char c) { return std::toupper(c); });
      return value;
    case ',':
      std::ranges::transform(value, value.begin(), [](unsigned char c) { return std::tolower(c); });
      return value;
    case '/': {
      const std::size_t slash = std::min(how.find('/', twice), how.size());
      const std::string what = inner(how.substr(twice, slash - twice));
      const std::string by = slash < how.size() ? inner(how.substr(slash + 1)) : "";
      for (std::size_t at = 0; !what.empty() && (at = value.find(what, at)) != std::string::npos;
           at += by.size()) {
        value.replace(at, what.size(), by);
        if (twice == 1 || value.size() > 1'000'000) break;
      }
      return value;
    }
    case ':': {
      const std::size_t colon = std::min(how.find(':', 1), how.size());
      const auto begin = of_.arithmetic(std::string_view(how).substr(1, colon - 1));
      const auto length = colon < how.size()
                              ? of_.arithmetic(std::string_view(how).substr(colon + 1))
                              : std::optional<std::int64_t>(std::ssize(value));
      if (!begin || !length || *length < 0 || *begin > std::ssize(value)) return value;
      const std::int64_t from =
          *begin < 0 ? std::max<std::int64_t>(0, std::ssize(value) + *begin) : *begin;
      return value.substr(static_cast<std::size_t>(from), static_cast<std::size_t>(*length));
    }
    default:
      return value;
  }
}

void ShellVariables::Expansion::braces(bool quoted) {
  int line = line_;
  const std::size_t end = end_of_brackets(raw_, at_, line, of_.file_);
  const std::string all = "$" + raw_.substr(at_, end - at_);
  std::string inside = raw_.substr(at_ + 1, end - at_ - 2);
  at_ = end;
  const bool counts = inside.size() > 1 && inside[0] == '#';
  const bool refers = inside.size() > 1 && inside[0] == '!';
  if (counts || refers) inside.erase(0, 1);
  std::size_t length = 0;
  if (!inside.empty() && std::string_view("@*#?").find(inside[0]) != std::string_view::npos)
    length = 1;
  else
    while (length < inside.size() && is_shell_name_character(inside[length])) ++length;
  std::string name = inside.substr(0, length), how = inside.substr(length), subscript;
  if (how.starts_with('[')) {
    const std::size_t close = std::min(how.find(']'), how.size() - 1);
    subscript = how.substr(1, close - 1);
    how.erase(0, close + 1);
  }
  if (name.empty()) return add(all);
  if (refers) {
    const auto items = items_of(name);
    if (!items || items->size() != 1) return add_missing(name, all);
    name = items->front().text;
  }
  if (counts) {
    const auto items = items_of(name);
    const bool every = subscript == "@" || subscript == "*" || name == "@" || name == "*";
    return add(std::to_string(!items                    ? 0
                              : every || items->empty() ? items->size()
                                                        : items->front().text.size()));
  }
  const bool is_list = name == "@" || name == "*" || subscript == "@" || subscript == "*";
  const bool colon = how.size() > 1 && how[0] == ':' &&
                     std::string_view("-=+?").find(how[1]) != std::string_view::npos;
  const std::size_t at = colon ? 1 : 0;
  const auto items = items_of(name);
  if (how.size() > at && std::string_view("-=+?").find(how[at]) != std::string_view::npos) {
    const bool is_empty =
        !items ||
        (colon && (items->empty() || (items->size() == 1 && items->front().text.empty())));
    const std::string other = how.substr(at + 1);
    if (how[at] == '+') {
      if (is_empty) return;
      return quoted ? add(inner(other)) : add_split({inner(other), line_});
    }
    if (is_empty && how[at] == '?') return add_missing(name, all);
    if (!is_empty) return value_of(name, subscript, all, quoted);
    const std::string value = inner(other);
    if (how[at] == '=') of_.set(name, value, line_);
    if (value.find('$') != std::string::npos) of_.is_open_ = true;
    return quoted ? add(value) : add_split({value, line_});
  }
  if (how.empty()) return value_of(name, subscript, all, quoted);
  if (!items) return add_missing(name, all);
  if (is_list) {  // ${@:2} and the like keep the later words
    std::vector<ShellWord> rest = *items;
    const auto begin = how[0] == ':' ? of_.arithmetic(how.substr(1, how.find(':', 1) - 1))
                                     : std::optional<std::int64_t>(0);
    const std::int64_t first = begin.value_or(0) - (name == "@" || name == "*" ? 1 : 0);
    if (first > 0) rest.erase(rest.begin(), rest.begin() + std::min(first, std::ssize(rest)));
    return add_items(rest, quoted, true);
  }
  if (items->empty()) return;
  const std::string value = changed(items->front().text, how);
  quoted ? add(value) : add_split({value, items->front().line});
}

}  // namespace meshwright::interop
