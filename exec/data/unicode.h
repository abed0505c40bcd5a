// What Unicode says of characters and of strings of them (utf8proc). All take valid UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace meshwright {

// Of equal strings one: accents in one character with their letter (c) or behind it (d); k: also
// without differences in looks, as in a wide letter. Unicode Standard Annex 15.
enum class NormalForm : std::uint8_t { nfc, nfd, nfkc, nfkd };

std::string normal_form(std::string_view text, NormalForm form);
// Each character by itself: no rule looks at its neighbours.
std::string lower_case(std::string_view text);
// Marks are accents that stand behind their letter (general categories Mn, Mc and Me).
enum class Marks : std::uint8_t { all, nonspacing };
std::string without_marks(std::string_view text, Marks marks);

}  // namespace meshwright
