// Reads files of JSON lines, whose text is tokenized when they are opened.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

namespace meshwright::exec {

// Calls `add` with every line that is not blank. If `add` throws an InputError, the file and the
// line number are put before its message. `holds` names what a file must hold at least ("one
// pair"). Throws InputError if the file cannot be read.
void read_json_lines(const std::string& path, const std::string& holds,
                     const std::function<void(const std::string& line)>& add);

// Returns the string that an object has under a key, or throws InputError. `where` is the object's
// place in the line, for the message.
std::string text_at(const nlohmann::json& object, const char* key, const std::string& where);

// Throws InputError if a token is not below `vocabulary`.
void check_in_vocabulary(std::span<const std::int32_t> tokens, std::int64_t vocabulary);

}  // namespace meshwright::exec
