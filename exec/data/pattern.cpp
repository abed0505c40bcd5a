#define PCRE2_CODE_UNIT_WIDTH 8
#include "exec/data/pattern.h"

#include <pcre2.h>

#include "models/core/error.h"

namespace meshwright {

namespace {

// Bytes of the UTF-8 character that begins with `first`; 0 when none does.
std::size_t length_of(unsigned char first) {
  if (first < 0x80) return 1;
  if (first < 0xC2) return 0;
  if (first < 0xE0) return 2;
  if (first < 0xF0) return 3;
  return first < 0xF5 ? 4 : 0;
}

bool continues(std::string_view text, std::size_t at, std::size_t length) {
  for (std::size_t i = 1; i < length; ++i)
    if (at + i >= text.size() || (static_cast<unsigned char>(text[at + i]) & 0xC0) != 0x80)
      return false;
  return true;
}

}  // namespace

std::size_t valid_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const auto first = static_cast<unsigned char>(text[at]);
    const std::size_t length = length_of(first);
    if (length == 0 || !continues(text, at, length)) return at;
    const auto second = static_cast<unsigned char>(length > 1 ? text[at + 1] : '\0');
    // Longer than needed, surrogates, beyond U+10FFFF.
    if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
        (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F))
      return at;
    at += length;
  }
  return text.size();
}

struct Pattern::Compiled {
  std::unique_ptr<pcre2_code, decltype(&pcre2_code_free)> code{nullptr, pcre2_code_free};
  std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match{nullptr,
                                                                            pcre2_match_data_free};
};

Pattern::Pattern(const std::string& expression, const std::string& where) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto compiled = std::make_shared<Compiled>();
  compiled->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()),
                                     expression.size(), PCRE2_UTF | PCRE2_UCP, &error, &offset,
                                     nullptr));
  if (!compiled->code) {
    char text[256] = "";
    pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(text), sizeof text);
    throw InputError(where + ": not a regular expression at character " + std::to_string(offset) +
                     ": " + text);
  }
  pcre2_jit_compile(compiled->code.get(), PCRE2_JIT_COMPLETE);  // only faster
  compiled->match.reset(pcre2_match_data_create_from_pattern(compiled->code.get(), nullptr));
  compiled_ = std::move(compiled);
}

std::string Pattern::quoted(std::string_view literal) {
  std::string expression;
  for (const char c : literal) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = byte >= 0x80 || std::isalnum(byte) != 0;
    if (!plain) expression += '\\';
    expression += c;
  }
  return expression;
}

void Pattern::split(std::string_view text, const Piece& piece) const {
  std::size_t done = 0, from = 0;
  while (from < text.size()) {
    const int found =
        pcre2_match(compiled_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                    from, PCRE2_NO_UTF_CHECK, compiled_->match.get(), nullptr);
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0)
      throw RunError("a tokenizer's expression gave up on the text near byte " +
                     std::to_string(from) + " (PCRE2 error " + std::to_string(found) + ")");
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(compiled_->match.get());
    if (range[1] <= range[0]) {  // an empty match cuts nothing
      from = range[1] +
             (range[1] < text.size()
                  ? std::max<std::size_t>(1, length_of(static_cast<unsigned char>(text[range[1]])))
                  : 1);
      continue;
    }
    if (range[0] > done) piece(text.substr(done, range[0] - done), false);
    piece(text.substr(range[0], range[1] - range[0]), true);
    done = from = range[1];
  }
  if (done < text.size()) piece(text.substr(done), false);
}

}  // namespace meshwright
