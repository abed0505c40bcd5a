// Holds the variables of a shell script while run.h walks it, and expands words by them. A variable
// that the script does not set stays as it is written ("$NAME"), so that it is not taken for a
// number.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tools/interop/shell/syntax.h"

namespace meshwright::interop {

// Lines for the user about what a reader had to assume.
using ShellDoubts = std::set<std::string>;

struct ShellWord {
  std::string text;
  int line = 0, file = 0;  // `file`: an index into ShellOutcome::files
};

struct ShellVariable {
  std::vector<ShellWord> items;  // one, unless it is an array
  ShellDoubts doubts;            // what its value depends on
};

// Returns the value of an expression of $(( )): whole numbers, + - * / %, comparisons, && || ! ?:
// and parentheses. Returns nothing if `text` is no such expression, nests too deeply, divides by 0,
// or exceeds 2^52 in absolute value.
std::optional<std::int64_t> shell_arithmetic(const std::string& text);

class ShellVariables {
 public:
  // Sets the file that contains the words that are expanded from now on.
  void enter(const std::string& name, int index) {
    file_ = name;
    index_ = index;
  }

  // Sets a variable, or the parameter $1, $2, ..., from outside of the script. Assignments of the
  // script do not change such a variable, because the user means its value.
  void define(const std::string& name, const std::string& value);
  void set(const std::string& name, const std::string& value, int line);
  void unset(const std::string& name) { variables_.erase(name); }
  const ShellVariable* find(const std::string& name) const;  // null: not set
  // Adds doubts to a variable, also to one that is not set. A variable of define() gets none.
  void doubt(const std::string& name, const ShellDoubts& doubts);

  std::vector<std::string> positional;  // $1, $2, ...

  // Expands a word: removes its quotes, replaces variables, and splits unquoted values at blanks.
  std::vector<ShellWord> words_of(const ShellText& word);
  // Expands a word to one text, as in an assignment.
  std::string text_of(const ShellText& word);
  // Expands a here-document.
  std::string text_of(const ShellDocument& document);
  // Expands a word of a condition, in which a variable that is not set is empty. Returns nothing if
  // only the shell knows the text.
  std::optional<std::string> known_text_of(const ShellText& word);
  // Performs an assignment NAME=VALUE, NAME+=VALUE, NAME=(...) or NAME[I]=VALUE, and returns the
  // name. Adds `doubts` to the variable. A variable of define() stays as it is. Throws InputError
  // if the value is too long.
  std::string assign(const ShellText& word, const ShellDoubts& doubts);
  // Returns the value of an arithmetic expression with variables. If some of them have no whole
  // number as value, returns nothing and sets `*unknown`, unless it is null, to the expression in
  // which the other variables are replaced. Returns nothing for all that shell_arithmetic() does
  // not know.
  std::optional<std::int64_t> arithmetic(std::string_view expression,
                                         std::string* unknown = nullptr);

  // Returns the doubts of all variables that were expanded since the last call.
  ShellDoubts take_doubts();
  const std::string& file() const { return file_; }
  int file_index() const { return index_; }

 private:
  class Expansion;
  std::string file_;
  std::map<std::string, ShellVariable, std::less<>> variables_;
  std::set<std::string, std::less<>> defined_;
  std::map<std::string, ShellDoubts, std::less<>> missing_doubts_;
  ShellDoubts doubts_;
  bool missing_is_empty_ = false, is_open_ = false;
  int levels_ = 0, index_ = 0;
};

}  // namespace meshwright::interop
