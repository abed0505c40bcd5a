// Makes text that may come from outside safe to print on a terminal.
#pragma once

#include <string>
#include <string_view>

#include "models/core/rooms.h"

namespace meshwright::core {

// Returns the text with control characters replaced by escapes like `\x1b`, because they could move
// the cursor, change colours or rename the window. C1 characters (U+0080 to U+009F) in UTF-8, which
// some terminals obey, become `\x80` to `\x9f`. Line feeds and tabs stay.
std::string printable(std::string_view text);

}  // namespace meshwright::core
