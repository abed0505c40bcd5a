// Makes text of a job or a data file safe to print on a terminal.
#pragma once

#include <string>
#include <string_view>

#include "models/core/rooms.h"

namespace meshwright::core {

// Returns the text with control characters, which would move the cursor, colour what follows or
// rename the window, replaced by escapes like `\x1b`. C1 characters (U+0080 to U+009F), which some
// terminals obey in UTF-8 too, become `\x80` to `\x9f`. Line feeds and tabulators stay.
std::string printable(std::string_view text);

}  // namespace meshwright::core
