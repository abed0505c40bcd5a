// Unicode properties and mappings of characters and strings (by utf8proc). All functions take valid
// UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace meshwright::exec {

// The normal forms of Unicode Standard Annex 15, which give equivalent strings one spelling. An
// accent joins its letter in one character (c) or follows it (d). The forms with k also remove
// differences in looks, as in a wide letter.
enum class NormalForm : std::uint8_t { nfc, nfd, nfkc, nfkd };

std::string normal_form(std::string_view text, NormalForm form);
// Returns `text` in lower case. Each character is mapped on its own, and no rule depends on its
// neighbours.
std::string lower_case(std::string_view text);
// Marks are accents that follow their letter: those of the general categories Mn (nonspacing), Mc
// and Me.
enum class Marks : std::uint8_t { all, nonspacing };
std::string without_marks(std::string_view text, Marks marks);

}  // namespace meshwright::exec
