// Writes settings as the text of a YAML, TOML or JSON file. TOML is written by hand, because toml++
// sorts names and writes 0.1 as 0.10000000000000001.
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "models/core/error.h"
#include "models/core/quote.h"
#include "models/core/utf8.h"
#include "tools/interop/formats/text.h"

namespace meshwright::interop {

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

// Returns whether every reader of YAML takes the text without quotes for this string. Returns false
// also for some strings that need no quotes.
bool is_plain_in_yaml(const std::string& text) {
  static const std::set<std::string_view> taken = {"true", "false", "yes", "no",  "on", "off",
                                                   "null", "y",     "n",   "nan", "inf"};
  static const std::string first = "abcdefghijklmnopqrstuvwxyz_/", all = first + "0123456789-.";
  std::string lower = text;
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return !lower.empty() && first.find(lower[0]) != std::string::npos && !taken.contains(lower) &&
         lower.find_first_not_of(all) == std::string::npos;
}

// Emits a value in block style. Only a list of numbers and an empty list are written on one line.
// yaml-cpp alone would not quote words that PyYAML takes for truth values and numbers. It writes
// U+FFFD in place of a noncharacter of Unicode.
void emit(YAML::Emitter& to, const ordered_json& value) {
  const auto is_number = [](const ordered_json& each) { return each.is_number(); };
  if (value.is_object()) {
    to << YAML::BeginMap;
    for (const auto& [name, each] : value.items()) {
      emit(to << YAML::Key, name);
      emit(to << YAML::Value, each);
    }
    to << YAML::EndMap;
  } else if (value.is_array()) {
    if (std::ranges::all_of(value, is_number)) to << YAML::Flow;
    to << YAML::BeginSeq;
    for (const ordered_json& each : value) emit(to, each);
    to << YAML::EndSeq;
  } else if (value.is_string()) {
    const std::string text = as_utf8(value.get<std::string>());
    if (!is_plain_in_yaml(text)) to << YAML::DoubleQuoted;
    to << text;
  } else if (value.is_number()) {
    to << text_of_number(value);
  } else if (value.is_boolean()) {
    to << value.get<bool>();
  } else {
    to << YAML::Null;
  }
}

// Returns a value for TOML. A list is written on one line.
std::string text_of_value(const ordered_json& value) {
  if (value.is_string()) return double_quoted(value.get<std::string>());
  if (value.is_number()) return text_of_number(value);
  if (!value.is_array()) return value.dump();
  std::string text;
  for (const ordered_json& each : value) text += (text.empty() ? "" : ", ") + text_of_value(each);
  return "[" + text + "]";
}

void add_toml(const ordered_json& object, const std::string& table, std::string& text) {
  const bool has_values =
      std::ranges::any_of(object, [](const ordered_json& each) { return !each.is_object(); });
  if (has_values && !table.empty()) text += (text.empty() ? "[" : "\n[") + table + "]\n";
  for (const auto& [name, value] : object.items())
    if (!value.is_object()) text += name + " = " + text_of_value(value) + "\n";
  for (const auto& [name, value] : object.items())
    if (value.is_object()) add_toml(value, table.empty() ? name : table + "." + name, text);
}

}  // namespace

std::string yaml_text(const ordered_json& value) {
  YAML::Emitter emitter;
  emitter.SetOutputCharset(YAML::EscapeNonAscii);
  emit(emitter, value);
  return std::string(emitter.c_str()) + "\n";
}

std::string yaml_text(const Settings& settings) { return yaml_text(nested(settings)); }

std::string toml_text(const Settings& settings) {
  std::string text;
  add_toml(nested(settings), "", text);
  return text;
}

std::string json_text(const Settings& settings) { return nested(settings).dump(2) + "\n"; }

}  // namespace meshwright::interop
