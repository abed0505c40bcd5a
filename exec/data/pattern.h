// A regular expression over UTF-8 text, as tokenizers cut text with it (PCRE2, Unicode classes).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace meshwright {

class Pattern {
 public:
  // InputError, beginning with `where`, for an expression that is none.
  Pattern(const std::string& expression, const std::string& where);
  static std::string quoted(std::string_view literal);  // an expression that matches just this

  // Cuts UTF-8 text into the matches and what lies between them, in order; nothing is lost, no
  // piece is empty.
  using Piece = std::function<void(std::string_view piece, bool matched)>;
  void split(std::string_view text, const Piece& piece) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace meshwright
