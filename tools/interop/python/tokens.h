// Splits a program of Python into tokens. Nothing is executed.
#pragma once

#include <string>
#include <vector>

namespace meshwright::interop {

struct PythonToken {
  enum class Kind { name, number, text, sign, line_end } kind = Kind::line_end;
  std::string text;  // a string literal: its value; a line's end: empty
  int line = 0;
  bool is_open = false;  // an f-string whose text has a brace
  int indent = 0;        // line_end: blanks before the next line; after a ; -1
};

// Returns the tokens of a program. Line ends inside of brackets are left out. Throws InputError
// with the line if a string literal is not closed.
std::vector<PythonToken> python_tokens(const std::string& text, const std::string& file);

}  // namespace meshwright::interop
