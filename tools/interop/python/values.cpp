#include "tools/interop/python/values.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

namespace meshwright::interop {

namespace {

constexpr std::int64_t most_items = 4096;  // of a list that a program repeats

}  // namespace

json open_value(const std::string& name) { return "${" + name + "}"; }

bool is_open_value(const json& value) {
  return value.is_string() && value.get_ref<const std::string&>().starts_with("${");
}

std::optional<bool> truth_of(const json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value != 0;
  if (is_open_value(value)) return std::nullopt;
  if (value.is_object() && value.contains(std::string(made_by))) {
    const std::string made = value[std::string(made_by)];
    const std::string last = made.substr(made.rfind('.') + 1);
    const bool is_class = !last.empty() && std::isupper(static_cast<unsigned char>(last[0])) != 0;
    return is_class ? std::optional(true) : std::nullopt;
  }
  return value.is_string() ? value != "" : !value.empty();
}

json combined(const json& left, const std::string& sign, const json& right) {
  if (sign == "+" && left.is_string() && right.is_string() && !is_open_value(left) &&
      !is_open_value(right))
    return left.get<std::string>() + right.get<std::string>();
  if (sign == "+" && left.is_array() && right.is_array()) {
    json all = left;
    for (const json& each : right) all.push_back(each);
    return all;
  }
  if (sign == "*" && left.is_array() && right.is_number_integer()) {
    json all = json::array();
    const std::int64_t times = right;
    if (times * static_cast<std::int64_t>(left.size()) > most_items || times > most_items)
      return open_value("list");
    for (std::int64_t i = 0; i < times; ++i)
      for (const json& each : left) all.push_back(each);
    return all;
  }
  if (sign == "|" && left.is_object() && right.is_object()) {
    json all = left;
    all.update(right);
    return all;
  }
  if (!left.is_number() || !right.is_number())
    return is_open_value(left) ? left : open_value("expression");
  const double a = left, b = right;
  const double result = sign == "+"    ? a + b
                        : sign == "-"  ? a - b
                        : sign == "*"  ? a * b
                        : b == 0       ? 0
                        : sign == "//" ? std::floor(a / b)
                        : sign == "%"  ? a - b * std::floor(a / b)
                                       : a / b;
  if (sign == "**") return open_value("expression");
  if (left.is_number_integer() && right.is_number_integer() && sign != "/" &&
      std::abs(result) < 9e15)
    return static_cast<std::int64_t>(result);
  return result;
}

json number_of(const std::string& text) {
  std::int64_t whole = 0;
  const char *begin = text.data(), *end = begin + text.size();
  if (const auto read = std::from_chars(begin, end, whole);
      read.ec == std::errc() && read.ptr == end)
    return whole;
  double number = 0;
  if (const auto read = std::from_chars(begin, end, number);
      read.ec == std::errc() && read.ptr == end)
    return number;
  return open_value("number");
}

json item_of(const json& of, const json& key, const json& otherwise) {
  if (is_open_value(key)) return open_value("index");
  const std::string name = key.is_string() ? key.get<std::string>() : key.dump();
  return of.contains(name) ? of[name] : otherwise;
}

std::optional<bool> related(const json& left, const std::string& sign, const json& right) {
  if (is_open_value(left) || is_open_value(right)) return std::nullopt;
  if (sign == "==" || sign == "is") return left == right;
  if (sign == "!=") return left != right;
  if (sign == "in" && right.is_array())
    return std::find(right.begin(), right.end(), left) != right.end();
  if (sign == "in" && right.is_object())
    return right.contains(left.is_string() ? left.get<std::string>() : left.dump());
  if (!left.is_number() || !right.is_number()) return std::nullopt;
  const double a = left, b = right;
  return sign == "<" ? a < b : sign == ">" ? a > b : sign == "<=" ? a <= b : a >= b;
}

}  // namespace meshwright::interop
