// Declares what the readers of nested files share, and the functions that write settings as such
// files.
#pragma once

#include <string>

#include "tools/interop/settings.h"

namespace meshwright::interop {

// Throws InputError if a file is empty or is not text in UTF-8.
void check_text(const std::string& text, const std::string& file);
std::string place_at(const std::string& file, std::int64_t line);  // "run.yaml:12"

constexpr int most_levels = 64;        // deepest nesting of names
constexpr int most_settings = 10'000;  // values of a file, aliases counted

// Returns a value as a YAML file in block style, which YAML 1.1 and 1.2 read alike.
std::string yaml_text(const nlohmann::ordered_json& value);

// Return settings with dotted names as a nested file. Names are in the order in which their first
// parts appear. Values are numbers, words, truth values and lists of these. Null is left out.
std::string yaml_text(const Settings& settings);
std::string toml_text(const Settings& settings);
std::string json_text(const Settings& settings);

}  // namespace meshwright::interop
