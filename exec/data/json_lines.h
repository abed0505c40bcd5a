// Files of JSON lines whose text is tokenized when they are opened.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

namespace meshwright {

// Gives every line that is not blank to `add`, whose InputErrors get the file and the line. `holds`
// is what a file should at least hold ("one pair"); an unreadable one is an InputError.
void read_json_lines(const std::string& path, const std::string& holds,
                     const std::function<void(const std::string& line)>& add);

// The text that an object has under a key, or an InputError; `where` is the object's own place.
std::string text_at(const nlohmann::json& object, const char* key, const std::string& where);

// InputError for a token that the model does not know.
void check_in_vocabulary(std::span<const std::int32_t> tokens, std::int64_t vocabulary);

}  // namespace meshwright
