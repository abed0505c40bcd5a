// Splits a shell script into words: removes quotes and resolves variables, arrays and
// $((arithmetic)). Nothing is executed: `$(command)` and variables from elsewhere stay as they are
// written. The caller interprets the commands, and calls assign() for assignments in the order in
// which they come.
#pragma once

#include <cctype>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace meshwright::interop {

struct ShellWord {
  std::string text;
  int line = 0;
  bool is_operator = false;  // ; && || | & ( ) and the end of a line
};

// Returns the value of an expression of $(( )): whole numbers, + - * / % and parentheses. Returns
// nothing if `text` is no such expression, divides by 0, or exceeds 2^52.
std::optional<std::int64_t> shell_arithmetic(const std::string& text);

inline bool is_shell_name_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

class ShellWords {
 public:
  // `text` and `file` must outlive this object. `level` counts how deep the text is nested in other
  // texts, from 0.
  ShellWords(const std::string& text, const std::string& file, int level = 0)
      : text_(text), file_(file), level_(level) {}

  bool at_end() const { return at_ >= text_.size(); }
  int level() const { return level_; }
  // Returns the next words: usually one, none for blanks and for a variable without a value,
  // several for arrays. Throws InputError with the line if a quote or a bracket is not closed.
  std::vector<ShellWord> next();
  // Returns the comments since the last call, each from its `#` on.
  std::vector<ShellWord> take_comments();

  static bool is_assignment(const std::string& word);  // NAME=..., NAME+=...
  // Performs an assignment that next() returned, and returns the assigned values.
  std::vector<std::string> assign(const std::string& word);
  // Returns the line of a word that was read in an array. For other words, returns `otherwise`.
  int line_in_array(const std::string& word, int otherwise) const;

  [[noreturn]] void fail(int line, const std::string& problem) const;

 private:
  std::vector<ShellWord> document();
  void skip_documents();
  std::vector<ShellWord> word();
  std::string single_quoted(int line);
  std::vector<std::string> double_quoted(int line);
  std::string backquoted(int line);
  std::string until_closed(char open, char close, int line);
  std::vector<std::string> variable(int line);
  std::vector<std::string> variable_words(int line);
  std::vector<std::string> in_parentheses(int line);
  std::string expanded(const std::string& text);
  std::string array(int line);

  const std::string& text_;
  const std::string& file_;
  int level_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::map<std::string, std::vector<std::string>, std::less<>> variables_;
  std::vector<std::vector<std::string>> arrays_;
  std::map<std::string, int, std::less<>> array_lines_;
  std::vector<std::string> documents_;  // open here-documents (<<EOT), by end word
  std::vector<ShellWord> comments_;
};

}  // namespace meshwright::interop
