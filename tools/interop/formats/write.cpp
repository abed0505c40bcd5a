// Writes settings as the text of a YAML, TOML or JSON file.
#include <algorithm>
#include <cmath>

#include "models/core/error.h"
#include "models/core/quote.h"
#include "tools/interop/formats/text.h"

namespace meshwright {

using nlohmann::json;
using nlohmann::ordered_json;

namespace {

ordered_json nested(const Settings& settings) {
  ordered_json all = ordered_json::object();
  for (const Setting& each : settings.all()) {
    if (each.value.is_null()) continue;
    ordered_json* at = &all;
    std::size_t begin = 0;
    for (std::size_t dot = each.name.find('.'); dot != std::string::npos;
         begin = dot + 1, dot = each.name.find('.', begin))
      at = &(*at)[each.name.substr(begin, dot - begin)];
    (*at)[each.name.substr(begin)] = ordered_json(each.value);
  }
  return all;
}

// Returns a number for YAML and TOML. PyYAML reads 1e-08 as a word and 1.0e-08 as a number, so ".0"
// is added. TOML reads both.
std::string text_of_number(const ordered_json& value) {
  if (value.is_number_float() && !std::isfinite(value.get<double>()))
    return value.get<double>() < 0 ? "-inf" : "inf";
  std::string text = value.dump();
  const std::size_t exponent = text.find('e');
  if (exponent != std::string::npos && text.find('.') == std::string::npos)
    text.insert(exponent, ".0");
  return text;
}

// Returns a value for YAML and TOML. A list is written on one line.
std::string text_of_value(const ordered_json& value) {
  if (value.is_string()) return double_quoted(value.get<std::string>());
  if (value.is_number()) return text_of_number(value);
  if (!value.is_array()) return value.dump();
  std::string text;
  for (const ordered_json& each : value) text += (text.empty() ? "" : ", ") + text_of_value(each);
  return "[" + text + "]";
}

void add_yaml(const ordered_json& object, const std::string& indent, std::string& text) {
  for (const auto& [name, value] : object.items()) {
    text += indent + name + ":";
    if (value.is_object()) {
      text += "\n";
      add_yaml(value, indent + "  ", text);
      continue;
    }
    text += " " +
            (value.is_string() ? yaml_string(value.get<std::string>()) : text_of_value(value)) +
            "\n";
  }
}

void add_toml(const ordered_json& object, const std::string& table, std::string& text) {
  const bool has_values = std::any_of(object.begin(), object.end(),
                                      [](const ordered_json& each) { return !each.is_object(); });
  if (has_values && !table.empty()) text += (text.empty() ? "[" : "\n[") + table + "]\n";
  for (const auto& [name, value] : object.items())
    if (!value.is_object()) text += name + " = " + text_of_value(value) + "\n";
  for (const auto& [name, value] : object.items())
    if (value.is_object()) add_toml(value, table.empty() ? name : table + "." + name, text);
}

}  // namespace

std::string yaml_text(const Settings& settings) {
  std::string text;
  add_yaml(nested(settings), "", text);
  return text;
}

std::string toml_text(const Settings& settings) {
  std::string text;
  add_toml(nested(settings), "", text);
  return text;
}

std::string json_text(const Settings& settings) { return nested(settings).dump(2) + "\n"; }

}  // namespace meshwright
