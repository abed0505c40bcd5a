// Parses a shell script into commands, without expanding or executing anything. run.h walks the
// result.
#pragma once

#include <string>
#include <vector>

namespace meshwright::interop {

// A word as the script writes it, with its quotes and variables.
struct ShellText {
  std::string raw;
  int line = 0;
};

// A here-document, such as `<<EOF`: the lines after a command that are its input.
struct ShellDocument {
  std::string text, end;
  int line = 0;              // of the first line of `text`
  bool is_literal = false;   // <<'EOF': nothing in it is expanded
  bool strips_tabs = false;  // <<-EOF
};

struct ShellNode;
using ShellBlock = std::vector<ShellNode>;

// A branch of `if` or `case`.
struct ShellBranch {
  ShellBlock condition;             // of `if`; empty for `else`
  std::vector<ShellText> patterns;  // of `case`
  ShellBlock body;
};

struct ShellNode {
  enum class Kind { command, branches, cases, loop_over, loop_while, function, group };
  Kind kind = Kind::command;
  std::string before = ";";  // the operator before the command: ; && || |
  bool is_negated = false;   // ! command
  bool is_until = false;     // of loop_while: `until`
  int line = 0;
  // command: all words. loop_over: the name and the values, or none for `for ((`. cases: the
  // subject. function: the name.
  std::vector<ShellText> words;
  std::vector<int> documents;      // indices into ShellScript::documents
  std::vector<ShellText> outputs;  // files that output is redirected to
  std::vector<ShellBranch> branches;
  ShellBlock body;       // loops, functions and groups
  ShellBlock condition;  // of loop_while
};

struct ShellScript {
  ShellBlock block;
  std::vector<ShellDocument> documents;
  std::vector<ShellText> comments;  // each from its `#` on
};

// Parses `text`, whose first line is line `first_line` of `file`. Throws InputError with the line
// if a quote or a bracket is not closed, or if commands, quotes or brackets nest too deeply. Blocks
// that are not closed end with the text.
ShellScript parse_shell(const std::string& text, const std::string& file, int first_line = 1);

// Returns the words of a text without commands, such as the inside of an array.
std::vector<ShellText> shell_words(const std::string& text, const std::string& file,
                                   int first_line);

// Return the index after the quoted text or the brackets that begin at `at`, with all that is
// quoted and nested in them. They add the lines that they pass to `line`. They throw InputError if
// the quote or bracket is not closed, or if quotes and brackets nest too deeply.
std::size_t end_of_quote(const std::string& text, std::size_t at, int& line,
                         const std::string& file);
std::size_t end_of_brackets(const std::string& text, std::size_t at, int& line,
                            const std::string& file);

// Returns whether a word is NAME=..., NAME+=... or NAME[...]=...
bool is_shell_assignment(const std::string& word);
bool is_shell_name_character(char c);

}  // namespace meshwright::interop
