#include "tools/interop/formats/shell_words.h"

#include <algorithm>

#include "models/core/error.h"

namespace meshwright::interop {

void ShellWords::fail(int line, const std::string& problem) const {
  throw InputError(file_ + ":" + std::to_string(line) + ": " + problem);
}

std::vector<ShellWord> ShellWords::take_comments() {
  std::vector<ShellWord> taken;
  taken.swap(comments_);
  return taken;
}

int ShellWords::line_in_array(const std::string& word, int otherwise) const {
  const auto found = array_lines_.find(word);
  return found == array_lines_.end() ? otherwise : found->second;
}

// Reads the next word, operator or blank, and returns its words. Comments are collected for
// take_comments(), and here-documents and line continuations are skipped.
std::vector<ShellWord> ShellWords::next() {
  const char c = text_[at_];
  if (c == '\n') {
    ++at_;
    const int line = line_++;
    skip_documents();
    return {{"", line, true}};
  }
  if (text_.compare(at_, 2, "<<") == 0) return document();
  if (c == ' ' || c == '\t' || c == '\r') {
    ++at_;
    return {};
  }
  if (c == '#') {
    const std::size_t end = std::min(text_.find('\n', at_), text_.size());
    comments_.push_back({text_.substr(at_, end - at_), line_, false});
    at_ = end;
    return {};
  }
  if (c == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n') {
    at_ += 2;
    ++line_;
    return {};
  }
  if (c == '\\' && at_ + 2 < text_.size() && text_[at_ + 1] == '\r' && text_[at_ + 2] == '\n') {
    at_ += 3;
    ++line_;
    return {};
  }
  if (c == ';' || c == '&' || c == '|' || c == '(' || c == ')') {
    ++at_;
    return {{std::string(1, c), line_, true}};
  }
  return word();
}

// Reads `<<EOT`. The lines from the next one to EOT are the input of a command, so skip_documents()
// skips them. `<<<` is read as a blank.
std::vector<ShellWord> ShellWords::document() {
  at_ += 2;
  if (at_ < text_.size() && text_[at_] == '<') {
    ++at_;
    return {};
  }
  while (at_ < text_.size() && (text_[at_] == '-' || text_[at_] == ' ')) ++at_;
  std::string end;
  for (; at_ < text_.size() && (is_shell_name_character(text_[at_]) || text_[at_] == '\'' ||
                                text_[at_] == '"' || text_[at_] == '\\');
       ++at_)
    if (is_shell_name_character(text_[at_])) end += text_[at_];
  if (!end.empty()) documents_.push_back(end);
  return {};
}

void ShellWords::skip_documents() {
  for (const std::string& end : documents_) {
    while (at_ < text_.size()) {
      const std::size_t stop = std::min(text_.find('\n', at_), text_.size());
      std::string text = text_.substr(at_, stop - at_);
      text.erase(0, std::min(text.find_first_not_of('\t'), text.size()));
      while (text.ends_with('\r')) text.pop_back();
      at_ = std::min(stop + 1, text_.size());
      ++line_;
      if (text == end) break;
    }
  }
  documents_.clear();
}

// Reads one word, without its quotes and with the values of its variables. An array becomes its
// words, and an unquoted variable is split at blanks.
std::vector<ShellWord> ShellWords::word() {
  const int line = line_;
  std::vector<std::string> words(1);
  bool is_there = false;  // quotes make even an empty word one
  const auto append = [&](const std::vector<std::string>& parts) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (i > 0) words.emplace_back();
      words.back() += parts[i];
    }
  };
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ';' || c == '&' || c == '|' ||
        c == ')' || text_.compare(at_, 2, "<<") == 0)
      break;
    if (c == '(') {
      if (!words.back().ends_with('=')) break;
      words.back() += array(line);
      is_there = true;
      continue;
    }
    if (c == '\'') {
      words.back() += single_quoted(line);
      is_there = true;
    } else if (c == '"') {
      append(double_quoted(line));
      is_there = true;
    } else if (c == '$') {
      append(variable_words(line));
    } else if (c == '`') {
      words.back() += backquoted(line);
    } else if (c == '\\') {
      if (at_ + 1 < text_.size() && text_[at_ + 1] == '\n') break;
      if (++at_ < text_.size()) words.back() += text_[at_++];
    } else {
      words.back() += c;
      ++at_;
    }
  }
  std::vector<ShellWord> found;
  for (std::string& each : words)
    if (!each.empty() || is_there) found.push_back({std::move(each), line, false});
  return found;
}

std::string ShellWords::single_quoted(int line) {
  const std::size_t end = text_.find('\'', at_ + 1);
  if (end == std::string::npos) fail(line, "a quote (') is not closed");
  const std::string inside = text_.substr(at_ + 1, end - at_ - 1);
  line_ += static_cast<int>(std::ranges::count(inside, '\n'));
  at_ = end + 1;
  return inside;
}

std::vector<std::string> ShellWords::double_quoted(int line) {
  std::vector<std::string> words(1);
  for (++at_; at_ < text_.size() && text_[at_] != '"';) {
    const char c = text_[at_];
    if (c == '$') {
      const std::vector<std::string> parts = variable(line);
      for (std::size_t i = 0; i < parts.size(); ++i) {
        if (i > 0) words.emplace_back();
        words.back() += parts[i];
      }
      continue;
    }
    if (c == '\\' && at_ + 1 < text_.size()) {
      ++at_;
      if (text_[at_] == '\n') {
        ++line_;
        ++at_;
        continue;
      }
    }
    if (text_[at_] == '\n') ++line_;
    words.back() += text_[at_++];
  }
  if (at_ >= text_.size()) fail(line, "a quote (\") is not closed");
  ++at_;
  return words;
}

std::string ShellWords::backquoted(int line) {
  const std::size_t end = text_.find('`', at_ + 1);
  if (end == std::string::npos) fail(line, "a quote (`) is not closed");
  const std::string all = text_.substr(at_, end + 1 - at_);
  line_ += static_cast<int>(std::ranges::count(all, '\n'));
  at_ = end + 1;
  return all;
}

std::string ShellWords::until_closed(char open, char close, int line) {
  const std::size_t begin = at_;
  int depth = 0;
  for (; at_ < text_.size(); ++at_) {
    if (text_[at_] == '\n') ++line_;
    if (text_[at_] == open) ++depth;
    if (text_[at_] == close && --depth == 0) {
      ++at_;
      return text_.substr(begin, at_ - begin);
    }
  }
  fail(line, std::string("a '") + open + "' is not closed");
}

// Reads the array of NAME=( words ). Returns its index in `arrays_` between two zero bytes, by
// which assign() finds the words.
std::string ShellWords::array(int line) {
  ++at_;
  std::vector<std::string> words;
  while (true) {
    if (at_ >= text_.size()) fail(line, "a '(' is not closed");
    if (text_[at_] == ')') break;
    for (ShellWord& each : next())
      if (!each.is_operator) {
        words.push_back(std::move(each.text));
        array_lines_[words.back()] = each.line;
      }
  }
  ++at_;
  arrays_.push_back(std::move(words));
  return std::string(1, '\0') + std::to_string(arrays_.size() - 1) + std::string(1, '\0');
}

}  // namespace meshwright::interop
