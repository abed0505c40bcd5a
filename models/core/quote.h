// Text of a job or of a file as another language reads it back: the same characters, none of which
// acts. Everything that writes scripts, settings or pages calls the one function of its language.
#pragma once

#include <string>
#include <string_view>

namespace meshwright {

// Returns whether the text is one line without control characters, as a name has to be.
bool is_one_line(std::string_view text);

// Returns the text as one word of a POSIX shell, quoted where it has to be. Throws InputError if it
// holds a byte of 0, which no command line can.
std::string shell_word(std::string_view text);

// Returns a name that needs no quotes in any language, for places that have none: `#SBATCH` lines,
// names of Kubernetes' objects. It has letters, digits and single dashes, begins with a letter, and
// is at most 50 bytes long; what else the text holds becomes a dash.
std::string plain_name(std::string_view text);

// Returns the text in double quotes, in ASCII, with the escapes that YAML, TOML and Python share.
std::string double_quoted(std::string_view text);

// Returns the text as a YAML scalar that is read as this string, quoted where it has to be.
std::string yaml_string(std::string_view text);

// Returns the text for an element's content, or for an attribute in double quotes. Characters that
// no page may hold are shown as on a terminal.
std::string html_text(std::string_view text);

// Returns the JSON text for the content of a `<script>` element, which nothing in it can end.
std::string json_in_html(std::string_view text);

}  // namespace meshwright
