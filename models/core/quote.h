// Quotes text of a job or of a file for a language that reads it back, so that it reads the same
// characters and none of them acts as code. Everything that writes scripts, settings or pages calls
// the one function of its language.
#pragma once

#include <string>
#include <string_view>

#include "models/core/rooms.h"

namespace meshwright::core {

// Returns whether the text is one line without tabulators and other control characters, as a name
// has to be.
bool is_one_line(std::string_view text);

// Returns the text as one word of a POSIX shell, quoted where it has to be. Throws InputError if it
// holds a byte of 0, which no command line can.
std::string shell_word(std::string_view text);

// Returns a name that needs no quotes in any language, for places that have none: `#SBATCH` lines,
// names of Kubernetes' objects. It has lower-case letters, digits and single dashes, begins with a
// letter, and is at most 56 bytes long. Every other run of characters in the text becomes one dash,
// and "train" comes in front of a digit, or replaces a name without any letter or digit.
std::string plain_name(std::string_view text);

// Returns the text in double quotes, in ASCII, with the escapes that YAML, TOML and Python share.
std::string double_quoted(std::string_view text);

// Returns the text with the escapes of HTML, for an element's content or an attribute in double
// quotes. Control characters, which no page may hold, are shown as on a terminal (printable.h).
std::string html_text(std::string_view text);

// Returns the JSON text for the content of a `<script>` element. Nothing in it can end the element,
// because every `<` is escaped.
std::string json_in_html(std::string_view text);

}  // namespace meshwright::core
