#include "tools/interop/settings.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "models/core/error.h"
#include "tools/interop/shell/syntax.h"

namespace meshwright::interop {

namespace {

std::optional<double> number_in(const std::string& text) {
  std::string_view digits = text;
  if (digits.starts_with('+')) digits.remove_prefix(1);
  std::string plain(digits);
  std::erase(plain, '_');  // 40_000_000 in YAML, TOML and Python
  double value = 0;
  const auto [end, error] = std::from_chars(plain.data(), plain.data() + plain.size(), value);
  if (error != std::errc() || end != plain.data() + plain.size() || !std::isfinite(value))
    return {};
  return value;
}

std::optional<double> number_of(const json& value) {
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) return number_in(value.get<std::string>());
  return std::nullopt;
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace

std::string shell_variable_in(const std::string& text) {
  if (text.find('`') != std::string::npos) return {};
  for (std::size_t i = 0; (i = text.find("$(", i)) != std::string::npos; ++i)
    if (text.compare(i, 3, "$((") != 0) return {};
  for (std::size_t i = 0; (i = text.find('$', i)) != std::string::npos; ++i) {
    std::size_t begin = i + 1;
    if (begin < text.size() && text[begin] == '{') ++begin;
    std::size_t end = begin;
    while (end < text.size() && is_shell_name_character(text[end])) ++end;
    if (end > begin) return text.substr(begin, end - begin);
  }
  return {};
}

namespace {

bool has_variable(const json& value) {
  return value.is_string() && !shell_variable_in(value.get_ref<const std::string&>()).empty();
}

}  // namespace

bool same_name(std::string_view one, std::string_view other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                    [](char a, char b) { return (a == '_' ? '-' : a) == (b == '_' ? '-' : b); });
}

void Settings::add(std::string name, json value, std::string place) {
  std::erase_if(all_, [&](const Setting& each) { return same_name(each.name, name); });
  all_.push_back({std::move(name), std::move(value), std::move(place)});
}

void Settings::remove(std::string_view name) {
  std::erase_if(all_, [&](const Setting& each) { return same_name(each.name, name); });
}

bool Settings::has(std::string_view name) const {
  return std::ranges::any_of(all_, [&](const Setting& each) { return same_name(each.name, name); });
}

const Setting* Settings::read(std::string_view name) {
  for (Setting& each : all_) {
    if (!same_name(each.name, name)) continue;
    each.is_read = true;
    if (listener_) listener_(each);
    return each.value.is_null() ? nullptr : &each;
  }
  return nullptr;
}

std::optional<std::int64_t> Settings::whole(std::string_view name) {
  const Setting* setting = read(name);
  if (setting == nullptr) return {};
  if (is_open(*setting)) return {};
  const std::optional<double> value = number_of(setting->value);
  if (!value || *value != std::floor(*value) || std::abs(*value) > 9e15)
    wrong_type(*setting, "a whole number");
  return static_cast<std::int64_t>(*value);
}

std::optional<std::int64_t> Settings::count(std::string_view name, std::int64_t least) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  const std::optional<std::int64_t> value = whole(name);
  if (value && (*value < least || *value > most))
    fail(name, std::to_string(*value) + " is out of range; use " + std::to_string(least) + " to " +
                   std::to_string(most));
  return value;
}

std::vector<std::int64_t> Settings::wholes(std::string_view name) {
  const Setting* setting = read(name);
  if (setting == nullptr) return {};
  const json list = setting->value.is_array() ? setting->value : json::array({setting->value});
  std::vector<std::int64_t> found;
  for (const json& each : list) {
    const std::optional<double> value = number_of(each);
    if (!value || *value != std::floor(*value) || std::abs(*value) > 9e15)
      wrong_type(*setting, "a list of whole numbers");
    found.push_back(static_cast<std::int64_t>(*value));
  }
  return found;
}

std::optional<double> Settings::number(std::string_view name) {
  const Setting* setting = read(name);
  if (setting == nullptr) return {};
  if (is_open(*setting)) return {};
  const std::optional<double> value = number_of(setting->value);
  if (!value) wrong_type(*setting, "a number");
  return value;
}

std::optional<bool> Settings::flag(std::string_view name) {
  const Setting* setting = read(name);
  if (setting == nullptr) return {};
  if (setting->value.is_boolean()) return setting->value.get<bool>();
  if (setting->value.is_string()) {
    const std::string text = lower(setting->value.get<std::string>());
    if (text == "true" || text == "yes" || text == "on" || text == "1") return true;
    if (text == "false" || text == "no" || text == "off" || text == "0") return false;
    if (before_ == "--" && has_variable(setting->value)) {
      note(where(*setting) + text + " is not given: the option is taken as a flag, true");
      return true;
    }
    if (is_open(*setting)) return {};
  }
  if (setting->value == 1) return true;
  if (setting->value == 0) return false;
  wrong_type(*setting, "true or false");
}

std::optional<std::string> Settings::word(std::string_view name) {
  const Setting* setting = read(name);
  if (setting == nullptr) return {};
  if (setting->value.is_string()) return setting->value.get<std::string>();
  if (setting->value.is_number() || setting->value.is_boolean()) return setting->value.dump();
  wrong_type(*setting, "a word");
}

std::optional<std::string> Settings::word(std::string_view name,
                                          const std::vector<std::string>& known) {
  const std::optional<std::string> value = word(name);
  for (const Setting& each : all_)
    if (value && same_name(each.name, name) && is_open(each)) return {};
  if (value && std::ranges::find(known, *value) == known.end())
    fail(name, "unknown word '" + *value + "'; known: " + list_of(known, "and"));
  return value;
}

std::vector<std::string> Settings::words(std::string_view name) {
  const Setting* setting = read(name);
  if (setting == nullptr) return {};
  const json list = setting->value.is_array() ? setting->value : json::array({setting->value});
  std::vector<std::string> found;
  for (const json& each : list) {
    if (!each.is_string()) wrong_type(*setting, "a list of words");
    found.push_back(each.get<std::string>());
  }
  return found;
}

bool Settings::is_open(const Setting& setting) {
  if (!has_variables_ || !has_variable(setting.value)) return false;
  open_.push_back({spelled(setting.name), setting.value.get<std::string>(), setting.place});
  return true;
}

std::string Settings::spelled(const std::string& name) const {
  if (const auto shown = shown_.find(name); shown != shown_.end()) return shown->second;
  if (before_.empty() || name == "program") return name;
  if (name.starts_with("env.")) return name.substr(4);
  if (name.starts_with("torchrun.")) return "torchrun --" + name.substr(9);
  if (name.starts_with("sbatch.")) return "#SBATCH --" + name.substr(7);
  return before_ + name;
}

void Settings::show_as(const std::string& name, std::string shown) {
  shown_.insert_or_assign(name, std::move(shown));
}

std::string Settings::where(const Setting& setting) const {
  return setting.place + ": " + spelled(setting.name) + ": ";
}

void Settings::fail(std::string_view name, const std::string& problem) const {
  for (const Setting& each : all_)
    if (same_name(each.name, name)) throw InputError(where(each) + problem);
  throw InputError((file_.empty() ? "" : file_ + ": ") + spelled(std::string(name)) + ": " +
                   problem);
}

void Settings::wrong_type(const Setting& setting, std::string_view expected) const {
  const std::string value = setting.value.dump();
  if (setting.value == true && before_ == "--")
    throw InputError(where(setting) +
                     "has no value; if an argument of the script stands there, or a variable that "
                     "is not given, --define 1=VALUE or --define NAME=VALUE gives it");
  const bool is_code = value.find("$") != std::string::npos || value.find('`') != std::string::npos;
  throw InputError(where(setting) + value + " is not " + std::string(expected) +
                   (is_code ? "; nothing of a script is executed: write the value" : ""));
}

}  // namespace meshwright::interop
