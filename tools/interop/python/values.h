// Computes with values of a Python program that is read, as JSON. A value that only the running
// program has is a text such as "${name}".
#pragma once

#include <optional>
#include <string>

#include "models/core/json.h"

namespace meshwright::interop {

json open_value(const std::string& name);
bool is_open_value(const json& value);

// Returns the value of a number's text.
json number_of(const std::string& text);
// Returns `left` SIGN `right`: + - * / // of numbers, + of texts and lists, | of dictionaries.
json combined(const json& left, const std::string& sign, const json& right);
// Returns whether `left` SIGN `right` is true: == != < > <= >= is in. Nothing if only the program
// knows.
std::optional<bool> related(const json& left, const std::string& sign, const json& right);
// Returns an item of a dictionary.
json item_of(const json& of, const json& key, const json& otherwise);

}  // namespace meshwright::interop
