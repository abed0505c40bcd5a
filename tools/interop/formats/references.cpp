// Resolves the references of OmegaConf in YAML files: ${model.hidden_size}, ${.hidden_size},
// ${multiply:4, ${.hidden_size}}, ${oc.env:NAME,default}.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "tools/interop/formats/formats.h"

namespace meshwright::interop {

namespace {

// Deepest recursion. Each further reference in a text and each reference inside another adds a
// level.
constexpr int most_references = 16;

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

std::optional<double> plain_number(const json& value) {
  if (value.is_number()) return value.get<double>();
  if (!value.is_string()) return std::nullopt;
  const std::string& text = value.get_ref<const std::string&>();
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

class References {
 public:
  explicit References(const Settings& settings) : settings_(settings) {}

  // Returns the value of a text of the setting `name`, or nothing if a reference cannot be
  // resolved.
  std::optional<json> value_of(const std::string& text, const std::string& name, int level) {
    if (level > most_references) return std::nullopt;
    const std::size_t open = text.find("${");
    if (open == std::string::npos) return json(text);
    std::size_t close = open + 2;
    for (int depth = 1; close < text.size(); ++close) {
      if (text.compare(close, 2, "${") == 0) ++depth;
      if (text[close] == '}' && --depth == 0) break;
    }
    if (close >= text.size()) return std::nullopt;
    const auto value = resolved(text.substr(open + 2, close - open - 2), name, level + 1);
    if (!value) return std::nullopt;
    if (open == 0 && close + 1 == text.size()) return value;
    const std::string middle = value->is_string() ? value->get<std::string>() : value->dump();
    return value_of(text.substr(0, open) + middle + text.substr(close + 1), name, level + 1);
  }

 private:
  std::optional<json> resolved(const std::string& inside, const std::string& name, int level) {
    const std::size_t colon = inside.find(':');
    if (colon != std::string::npos && inside.find("${") > colon)
      return computed(inside.substr(0, colon), inside.substr(colon + 1), name, level);
    std::string path = trimmed(inside);
    if (path.starts_with('.')) {  // .x is next to the setting, ..x next to what holds it
      std::string base = name;
      while (path.starts_with('.')) {
        const std::size_t dot = base.rfind('.');
        base.resize(dot == std::string::npos ? 0 : dot);
        path.erase(0, 1);
      }
      if (!base.empty()) path = base + "." + path;
    }
    for (const Setting& each : settings_.all())
      if (each.name == path)
        return each.value.is_string() ? value_of(each.value, each.name, level)
                                      : std::optional(each.value);
    return std::nullopt;
  }

  std::optional<json> computed(const std::string& how, const std::string& arguments,
                               const std::string& name, int level) {
    std::vector<std::string> parts(1);
    int depth = 0;
    for (const char c : arguments) {
      if (c == '{') ++depth;
      if (c == '}') --depth;
      if (c == ',' && depth == 0)
        parts.emplace_back();
      else
        parts.back() += c;
    }
    if (how == "oc.env")
      return parts.size() == 2 ? value_of(trimmed(parts[1]), name, level) : std::nullopt;
    std::vector<double> numbers;
    for (const std::string& part : parts) {
      const auto value = value_of(trimmed(part), name, level);
      const auto number = value ? plain_number(*value) : std::nullopt;
      if (!number) return std::nullopt;
      numbers.push_back(*number);
    }
    double result = numbers[0];
    for (std::size_t i = 1; i < numbers.size(); ++i) {
      if (how == "multiply")
        result *= numbers[i];
      else if (how == "add" || how == "sum")
        result += numbers[i];
      else if (how == "divide" || how == "int_div" || how == "div")
        result = numbers[i] == 0 ? result : result / numbers[i];
      else
        return std::nullopt;
    }
    if (how == "int_div" || how == "divide") result = std::floor(result);
    if (result != std::floor(result) || std::abs(result) > 1e15) return json(result);
    return json(static_cast<std::int64_t>(result));
  }

  const Settings& settings_;
};

}  // namespace

Settings with_references_resolved(const Settings& settings) {
  References references(settings);
  Settings resolved;
  for (const Setting& each : settings.all()) {
    json value = each.value;
    if (value.is_string() && value.get_ref<const std::string&>() == "???") {
      resolved.note(each.place + ": " + each.name + ": ??? is for the command line to say");
      value = nullptr;
    } else if (value.is_string()) {
      if (auto found = references.value_of(value, each.name, 0)) value = std::move(*found);
    }
    resolved.add(each.name, std::move(value), each.place);
  }
  return resolved;
}

}  // namespace meshwright::interop
