#include "exec/data/unicode.h"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>
#include <stdexcept>

namespace meshwright::exec {

namespace {

const utf8proc_uint8_t* bytes_of(std::string_view text) {
  return reinterpret_cast<const utf8proc_uint8_t*>(text.data());
}

template <typename Visit>  // visit(character, its bytes)
void each_character(std::string_view text, Visit visit) {
  while (!text.empty()) {
    utf8proc_int32_t character = 0;
    const auto length = utf8proc_iterate(bytes_of(text), std::ssize(text), &character);
    if (length <= 0) throw std::logic_error("text is not UTF-8");
    visit(character, text.substr(0, length));
    text.remove_prefix(length);
  }
}

utf8proc_option_t options_of(NormalForm form) {
  const bool composed = form == NormalForm::nfc || form == NormalForm::nfkc;
  const bool compatible = form == NormalForm::nfkc || form == NormalForm::nfkd;
  return static_cast<utf8proc_option_t>(UTF8PROC_STABLE |
                                        (composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
                                        (compatible ? UTF8PROC_COMPAT : 0));
}

}  // namespace

std::string normal_form(std::string_view text, NormalForm form) {
  utf8proc_uint8_t* made = nullptr;
  const auto length = utf8proc_map(bytes_of(text), std::ssize(text), &made, options_of(form));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> held(made, std::free);
  if (length < 0) throw std::logic_error(utf8proc_errmsg(length));
  return {reinterpret_cast<const char*>(made), static_cast<std::size_t>(length)};
}

std::string lower_case(std::string_view text) {
  constexpr utf8proc_int32_t capital_dotted_i = 0x130;  // the one that becomes two characters
  std::string lower;
  each_character(text, [&](utf8proc_int32_t character, std::string_view) {
    utf8proc_uint8_t bytes[4];
    if (character == capital_dotted_i) {
      lower += "i\xCC\x87";
      return;
    }
    const auto length = utf8proc_encode_char(utf8proc_tolower(character), bytes);
    lower.append(reinterpret_cast<const char*>(bytes), length);
  });
  return lower;
}

std::string without_marks(std::string_view text, Marks marks) {
  std::string rest;
  each_character(text, [&](utf8proc_int32_t character, std::string_view bytes) {
    const auto category = utf8proc_category(character);
    const bool other = category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_ME;
    if (category != UTF8PROC_CATEGORY_MN && !(marks == Marks::all && other)) rest += bytes;
  });
  return rest;
}

}  // namespace meshwright::exec
