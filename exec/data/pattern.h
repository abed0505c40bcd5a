// A regular expression over UTF-8 text, by which tokenizers split text (PCRE2 with Unicode
// classes).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace meshwright::exec {

class Pattern {
 public:
  // Throws an InputError that begins with `where` if `expression` is not a regular expression.
  Pattern(const std::string& expression, const std::string& where);
  static std::string quoted(std::string_view literal);  // an expression that matches just this

  // Splits UTF-8 text into the matches and what is between them, in order. Nothing is lost, and no
  // piece is empty. Throws RunError if PCRE2 gives up on the text.
  using Piece = std::function<void(std::string_view piece, bool matched)>;
  void split(std::string_view text, const Piece& piece) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace meshwright::exec
