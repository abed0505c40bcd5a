// Quotes text for a shell, a settings file or a page, so that none of its characters acts as code.
// There is one function for each language.
#pragma once

#include <string>
#include <string_view>

#include "models/core/rooms.h"

namespace meshwright::core {

// Returns whether the text is one line without tabs and other control characters, as a name has to
// be.
bool is_one_line(std::string_view text);

// Returns the text as one word of a POSIX shell, in quotes if it needs them. Throws InputError if
// the text contains a null byte, which no command line can hold.
std::string shell_word(std::string_view text);

// Returns a name that needs no quotes, for places that allow none: `#SBATCH` lines, and names of
// Kubernetes objects. It has lower-case letters, digits and single dashes, begins with a letter,
// and is at most 56 bytes long. Runs of other characters become one dash between letters and
// digits, and are dropped at the ends. "train-" comes in front of a digit, and "train" replaces a
// text without any letter or digit.
std::string plain_name(std::string_view text);

// Returns the text in double quotes, in ASCII, with the escapes that YAML, TOML and Python share.
std::string double_quoted(std::string_view text);

// Returns the text with the escapes of HTML, for an element's content or an attribute in double
// quotes. Control characters become escapes like `\x1b` (printable.h).
std::string html_text(std::string_view text);

// Returns the JSON text for the content of a `<script>` element. Nothing in it can end the element,
// because every `<` is escaped.
std::string json_in_html(std::string_view text);

}  // namespace meshwright::core
