// The one JSON object of --json.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace meshwright {

// Indented. Text that is not UTF-8 (a file's name may be anything) is replaced.
std::string json_text(const nlohmann::json& value);
// To standard output.
void print_json(const nlohmann::json& value);

}  // namespace meshwright
