// Declares the functions that the readers of nested files share, and those that write settings as
// such files.
#pragma once

#include <string>

#include "tools/interop/settings.h"

namespace meshwright::interop {

// Throws InputError if a file is empty or is not text in UTF-8.
void check_text(const std::string& text, const std::string& file);
std::string place_at(const std::string& file, std::int64_t line);  // "run.yaml:12"

constexpr int most_levels = 64;        // deepest nesting of names
constexpr int most_settings = 10'000;  // values of a file, aliases counted

// Returns a value as a YAML file in block style, with lists of numbers on one line. YAML 1.1 and
// 1.2 read it with the same result.
std::string yaml_text(const nlohmann::ordered_json& value);

// Return settings with dotted names as a nested file. Names with the same first parts are together,
// where the first of them is. In TOML, the values of a table come before the tables inside it.
// Values are numbers, words, truth values and lists of these. Null is left out.
std::string yaml_text(const Settings& settings);
std::string toml_text(const Settings& settings);
std::string json_text(const Settings& settings);

}  // namespace meshwright::interop
