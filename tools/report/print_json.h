// Prints the one JSON object of --json.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace meshwright::tools {

// Prints indented JSON in ASCII to standard output.
void print_json(const nlohmann::json& value);

}  // namespace meshwright::tools
