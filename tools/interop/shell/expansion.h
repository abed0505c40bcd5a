// Expands one word, or one here-document, of a shell script.
#pragma once

#include "tools/interop/shell/variables.h"

namespace meshwright::interop {

// Returns what `$(command)` prints if that follows from its words: echo, expr, seq, basename and
// dirname with arguments, and `echo EXPRESSION | bc`. Returns nothing for every other command,
// because nothing is executed.
std::optional<std::string> printed_by(const std::string& command, int line,
                                      ShellVariables& variables);

class ShellVariables::Expansion {
 public:
  Expansion(ShellVariables& of, const std::string& raw, int line)
      : of_(of), raw_(raw), line_(line), file_(of.index_) {}

  // Returns the words to which the text expands. With `splits`, unquoted values are split at
  // blanks.
  std::vector<ShellWord> words(bool splits);
  // Returns the text as that of a here-document: variables are replaced, and quotes stay.
  std::string document();

 private:
  void add(std::string_view text);
  void end_word() { is_in_word_ = false; }
  void dollar(bool quoted);
  void braces(bool quoted);
  void parentheses(bool quoted);
  void double_quoted();
  void value_of(const std::string& name, const std::string& subscript, const std::string& all,
                bool quoted);
  void add_items(const std::vector<ShellWord>& items, bool quoted, bool every);
  void add_split(const ShellWord& value);
  void add_missing(const std::string& name, const std::string& all);
  std::string changed(std::string value, const std::string& how);
  std::optional<std::vector<ShellWord>> items_of(const std::string& name);
  std::string missing_in(const std::string& text);
  std::string inner(const std::string& text) const;

  ShellVariables& of_;
  const std::string& raw_;
  int line_, file_;
  std::size_t at_ = 0;
  bool splits_ = true, is_in_word_ = false;
  bool is_empty_list_ = false;  // whether the last expanded list had no items
  std::vector<ShellWord> found_;
};

}  // namespace meshwright::interop
