// Checks whether a value is what a JSON Schema describes, by the keywords that this project's
// schemas use. Other keywords fail.
#pragma once

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tests/catch.h"

inline bool is_of_type(const nlohmann::json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "number") return value.is_number();
  if (type == "null") return value.is_null();
  REQUIRE(type == "integer");
  return value.is_number_integer() ||
         (value.is_number() && value.get<double>() == std::floor(value.get<double>()));
}

inline bool is_valid(const nlohmann::json& value, const nlohmann::json& schema) {
  using nlohmann::json;
  for (const auto& [keyword, of] : schema.items()) {
    if (std::set<std::string>{"$schema", "$comment", "title", "description"}.contains(keyword))
      continue;
    bool valid = true;
    if (keyword == "type") {
      const json types = of.is_array() ? of : json::array({of});
      valid = std::any_of(types.begin(), types.end(),
                          [&](const json& type) { return is_of_type(value, type); });
    } else if (keyword == "enum") {
      valid = std::find(of.begin(), of.end(), value) != of.end();
    } else if (keyword == "const") {
      valid = value == of;
    } else if (keyword == "anyOf") {
      valid =
          std::any_of(of.begin(), of.end(), [&](const json& one) { return is_valid(value, one); });
    } else if (keyword == "minimum") {
      valid = !value.is_number() || value.get<double>() >= of.get<double>();
    } else if (keyword == "maximum") {
      valid = !value.is_number() || value.get<double>() <= of.get<double>();
    } else if (keyword == "exclusiveMinimum") {
      valid = !value.is_number() || value.get<double>() > of.get<double>();
    } else if (keyword == "exclusiveMaximum") {
      valid = !value.is_number() || value.get<double>() < of.get<double>();
    } else if (keyword == "items") {
      valid = !value.is_array() || std::all_of(value.begin(), value.end(),
                                               [&](const json& one) { return is_valid(one, of); });
    } else if (keyword == "minItems") {
      valid = !value.is_array() || value.size() >= of.get<std::size_t>();
    } else if (keyword == "maxItems") {
      valid = !value.is_array() || value.size() <= of.get<std::size_t>();
    } else if (keyword == "required") {
      valid = !value.is_object() || std::all_of(of.begin(), of.end(), [&](const json& key) {
        return value.contains(key.get<std::string>());
      });
    } else if (keyword == "properties") {
      if (value.is_object())
        for (const auto& [key, each] : of.items())
          valid = valid && (!value.contains(key) || is_valid(value[key], each));
    } else if (keyword == "additionalProperties") {
      if (value.is_object())
        for (const auto& [key, each] : value.items())
          if (!schema["properties"].contains(key))
            valid = valid && of.is_object() && is_valid(each, of);
    } else {
      FAIL("keyword " << keyword);
    }
    if (!valid) return false;
  }
  return true;
}
