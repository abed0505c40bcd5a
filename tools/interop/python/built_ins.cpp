#include "tools/interop/python/built_ins.h"

#include <algorithm>
#include <cmath>

namespace meshwright::interop {

namespace {

constexpr std::int64_t most_items = 4096;

std::optional<bool> is_instance(const json& value, const json& type) {
  if (is_open_value(value)) return std::nullopt;
  if (type.is_array()) {
    std::optional<bool> all = false;
    for (const json& each : type) {
      const std::optional<bool> one = is_instance(value, each);
      if (one == true) return true;
      if (!one) all = std::nullopt;
    }
    return all;
  }
  std::string name = type.is_string() ? type.get<std::string>() : "";
  if (is_open_value(type)) name = name.substr(2, name.size() - 3);
  name = name.substr(name.rfind('.') + 1);
  if (name == "str") return value.is_string();
  if (name == "bool") return value.is_boolean();
  if (name == "int") return value.is_number_integer() || value.is_boolean();
  if (name == "float") return value.is_number_float();
  if (name == "list" || name == "tuple") return value.is_array();
  if (!value.is_object()) return false;
  if (!value.contains(std::string(made_by))) return name == "dict";
  std::string made = value[std::string(made_by)];
  made = made.substr(made.rfind('.') + 1);
  return made == name ? std::optional(true) : std::nullopt;  // it may be a subclass
}

json range_of(const json& given) {
  const std::size_t count = given.size();
  std::int64_t bounds[] = {0, 0, 1};
  for (std::size_t i = 0; i < count && i < 3; ++i) {
    const std::string place = std::to_string(i);
    if (!given.contains(place) || !given[place].is_number_integer()) return open_value("range");
    bounds[count == 1 ? 1 : i] = given[place];
  }
  json all = json::array();
  const auto [begin, end, step] = bounds;
  if (step == 0) return open_value("range");
  for (std::int64_t i = begin; step > 0 ? i < end : i > end; i += step) {
    all.push_back(i);
    if (static_cast<std::int64_t>(all.size()) > most_items) return open_value("range");
  }
  return all;
}

json extreme(const json& given, bool is_least) {
  const json items = given.size() == 1 && given["0"].is_array() ? given["0"] : given;
  json found;
  for (const json& each : items) {
    if (!each.is_number()) return open_value("number");
    if (found.is_null() || (is_least ? each < found : found < each)) found = each;
  }
  return found;
}

json as_number(const json& of, bool is_whole) {
  const json read = of.is_string()    ? number_of(of)
                    : of.is_boolean() ? json(of == true ? 1 : 0)
                                      : of;
  if (!read.is_number()) return open_value("number");
  const double number = read;
  if (!is_whole) return number;
  return std::abs(number) < 9e15 ? json(static_cast<std::int64_t>(number)) : open_value("number");
}

}  // namespace

std::optional<json> built_in(const std::string& name, const json& given) {
  const auto at = [&](const char* place) { return given.contains(place) ? given[place] : json(); };
  const json first = at("0"), second = at("1");
  if (name == "range") return range_of(given);
  if (name == "min" || name == "max") return extreme(given, name == "min");
  if (name == "int" || name == "float") return as_number(first, name == "int");
  if (name == "str" && first.is_string()) return first;
  if (name == "list" || name == "tuple")
    return first.is_array() ? first : given.empty() ? json::array() : open_value("list");
  if (name == "len")
    return first.is_array() || (first.is_string() && !is_open_value(first))
               ? json(first.is_string() ? first.get_ref<const std::string&>().size() : first.size())
               : open_value("len");
  if (name == "bool" || name == "isinstance") {
    const std::optional<bool> known = name == "bool" ? truth_of(first) : is_instance(first, second);
    return known ? json(*known) : open_value("condition");
  }
  if (name == "divmod")
    return json::array({combined(first, "//", second), combined(first, "%", second)});
  if (name == "copy.deepcopy" || name == "deepcopy" || name == "copy.copy") return first;
  // A recipe is read with no variable set in its environment.
  if (name == "os.getenv" || name == "os.environ.get") return second;
  if (name == "cast" || name == "typing.cast") return second;
  if (name == "hasattr" || name == "getattr") {
    if (!first.is_object() || !second.is_string()) return open_value("attribute");
    const bool has = first.contains(second.get<std::string>());
    if (name == "getattr") return has ? json(first[second.get<std::string>()]) : at("2");
    return has ? json(true) : open_value("condition");
  }
  return std::nullopt;
}

json method_of(json of, const std::string& name, const json& given) {
  const json first = given.contains("0") ? given["0"] : json();
  if (of.is_object()) {
    if (name != "get" || of.contains(std::string(made_by)) || first.is_null()) return of;
    return item_of(of, first, given.contains("1") ? given["1"] : json());
  }
  if (!of.is_string() || is_open_value(of)) return of.is_array() ? of : open_value("method");
  const std::string text = of;
  if (name == "lower" || name == "upper") {
    std::string changed = text;
    std::ranges::transform(changed, changed.begin(), [&](unsigned char c) {
      return static_cast<char>(name == "lower" ? std::tolower(c) : std::toupper(c));
    });
    return changed;
  }
  if ((name == "startswith" || name == "endswith") && first.is_string() && !is_open_value(first))
    return name == "startswith" ? text.starts_with(first.get<std::string>())
                                : text.ends_with(first.get<std::string>());
  return open_value("method");
}

json indexed(const json& of, const json& index) {
  if (of.is_array() && index.is_number_integer()) {
    const std::int64_t size = static_cast<std::int64_t>(of.size());
    const std::int64_t at = index.get<std::int64_t>() + (index < 0 ? size : 0);
    return at >= 0 && at < size ? json(of[static_cast<std::size_t>(at)]) : open_value("index");
  }
  if (of.is_object() && !of.contains(std::string(made_by)) && !is_open_value(index))
    return item_of(of, index, open_value("index"));
  const bool is_known = index.is_string() && !is_open_value(index);
  return open_value(is_known ? index.get<std::string>() : "index");
}

}  // namespace meshwright::interop
