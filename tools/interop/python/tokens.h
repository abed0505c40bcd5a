// Splits a program of Python into tokens. Nothing is executed.
#pragma once

#include <string>
#include <vector>

namespace meshwright::interop {

struct PythonToken {
  enum class Kind { name, number, text, sign, line_end } kind = Kind::line_end;
  std::string text;  // of a text: its value
  int line = 0;
  bool is_open = false;  // an f-string with fields
  int indent = 0;        // of a line's end: blanks before the next line
};

// Throws InputError with the line if a text is not closed. Line ends inside of brackets are left
// out.
std::vector<PythonToken> python_tokens(const std::string& text, const std::string& file);

}  // namespace meshwright::interop
