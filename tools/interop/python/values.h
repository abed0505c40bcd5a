// Computes with the values of a Python program that is read, as JSON. A value that only the running
// program has (an open value) is a string such as "${name}".
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "models/core/json.h"

namespace meshwright::interop {

// The name under which an object holds what it was made by: "Trainer" of Trainer(devices=8). Its
// arguments are the other items, those without a name under their index.
constexpr std::string_view made_by = "_target_";

json open_value(const std::string& name);
bool is_open_value(const json& value);

// Returns the value of a number's text, or an open value if the text is not a decimal number.
json number_of(const std::string& text);
// Returns whether Python takes a value as true. Returns nothing for an open value, and for what a
// function made that is in no file; an object of a class is true.
std::optional<bool> truth_of(const json& value);
// Returns `left` SIGN `right`: + - * / // % of numbers, + of strings and of lists, a list * a
// number, | of dictionaries. Division by 0 gives 0, and any other combination an open value.
json combined(const json& left, const std::string& sign, const json& right);
// Returns whether `left` SIGN `right` is true: == != < > <= >= is in. Returns nothing if one of the
// values is open, or if they cannot be compared.
std::optional<bool> related(const json& left, const std::string& sign, const json& right);
// Returns an item of the dictionary `of`, or `otherwise` if it has no such key. Returns an open
// value for an open key.
json item_of(const json& of, const json& key, const json& otherwise);

}  // namespace meshwright::interop
