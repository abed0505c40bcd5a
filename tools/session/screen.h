// The width of what people read: 80 columns, or without end if --wide asks for it. The command line
// says so once, before a command runs; tables and lines ask for it.
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>

namespace meshwright::session {

inline constexpr std::size_t usual_columns = 80;
inline constexpr std::size_t without_end = std::numeric_limits<std::size_t>::max();

// Returns how many columns a line may take.
std::size_t screen_columns();

void set_screen_columns(std::size_t columns);

// Returns how many columns a line of UTF-8 takes, at one column for each character.
std::size_t columns_of(std::string_view line);

// Returns `text` with each line that is longer than `columns` broken at blanks. What follows is
// indented below the line's text: behind its blanks and, where a label and two blanks begin it,
// behind these. A line that begins with the command `meshwright` is broken before its options, with
// a backslash, so that a shell still reads it. A word longer than the line stays whole.
// A line without blanks before it goes on at column `hanging`.
std::string broken_lines(std::string_view text, std::size_t columns, std::size_t hanging = 2);

// Returns `text` behind `label`, broken below itself so that no line is longer than `columns`.
std::string labelled(std::string_view label, std::string_view text, std::size_t columns);

// Returns `text` in lines that fit the screen.
std::string on_screen(std::string_view text);

}  // namespace meshwright::session
