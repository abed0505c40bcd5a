// Fits text to the width that people read: 80 columns, or no limit with --wide. The command line
// sets the width once, before a command runs.
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>

namespace meshwright::session {

inline constexpr std::size_t usual_columns = 80;
inline constexpr std::size_t without_end = std::numeric_limits<std::size_t>::max();

// Returns how many columns a line of text may take.
std::size_t screen_columns();

void set_screen_columns(std::size_t columns);

// Returns how many columns a line of UTF-8 takes. Each character counts as one column.
std::size_t columns_of(std::string_view line);

// Returns `text` with each line that is longer than `columns` broken at blanks. The rest of a line
// is indented as the line is, or, if two blanks separate a label from the line's text, as that
// text. Without indentation and label, it is indented by `hanging` columns. A line that begins with
// the command `meshwright` is broken before an option or `&&`, with a backslash, so that a shell
// still reads it. A word that is too long stays whole.
std::string broken_lines(std::string_view text, std::size_t columns, std::size_t hanging = 2);

// Returns `text` after `label`. Its lines are broken to end by `columns`, and indented by the width
// of the label.
std::string labelled(std::string_view label, std::string_view text, std::size_t columns);

// Returns `text` with its lines broken to screen_columns().
std::string on_screen(std::string_view text);

}  // namespace meshwright::session
