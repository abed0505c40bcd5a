#define PCRE2_CODE_UNIT_WIDTH 8
#include "exec/data/pattern.h"

#include <pcre2.h>

#include "models/core/error.h"
#include "models/core/utf8.h"

namespace meshwright::exec {

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
      from = range[1] + (range[1] < text.size()
                             ? std::max<std::size_t>(
                                   1, utf8_length(static_cast<unsigned char>(text[range[1]])))
                             : 1);
      continue;
    }
    if (range[0] > done) piece(text.substr(done, range[0] - done), false);
    piece(text.substr(range[0], range[1] - range[0]), true);
    done = from = range[1];
  }
  if (done < text.size()) piece(text.substr(done), false);
}

}  // namespace meshwright::exec
