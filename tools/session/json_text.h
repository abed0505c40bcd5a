// Writes JSON as the text of a file or of standard output.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "models/core/rooms.h"

namespace meshwright::session {

// Returns indented JSON that ends with a line feed. Text that is not UTF-8, such as a file's name,
// is replaced. With `ascii`, all other characters than those of ASCII are escaped, so that no
// control character reaches a terminal.
std::string json_text(const nlohmann::json& value, bool ascii = false);

}  // namespace meshwright::session
