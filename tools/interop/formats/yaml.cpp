// Reads YAML as PyYAML does, which frameworks use: yes, no, on and off are truth values.
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "models/core/error.h"
#include "tools/interop/formats/formats.h"
#include "tools/interop/formats/text.h"

namespace meshwright::interop {

namespace {

class YamlReader {
 public:
  explicit YamlReader(const std::string& file) : file_(file) {}

  void add_map(const YAML::Node& map, const std::string& before, int level) {
    check(map, level);
    std::set<std::string> names;
    for (const auto& each : map) {
      const YAML::Node &key = each.first, &value = each.second;
      if (!key.IsScalar()) fail(key, "a name is a word; found a list or a mapping");
      const std::string& name = key.Scalar();
      if (name == "<<") fail(key, "'<<': merged mappings are not read; write the names out");
      if (!names.insert(name).second) fail(key, "'" + before + name + "' is given twice; keep one");
      if (value.IsMap())
        add_map(value, before + name + ".", level + 1);
      else
        settings_.add(before + name, value_of(value, level + 1), place(key));
    }
  }
  [[noreturn]] void fail(const YAML::Node& node, const std::string& problem) const {
    throw InputError(place(node) + ": " + problem);
  }
  Settings take() { return std::move(settings_); }

 private:
  std::string place(const YAML::Node& node) const {
    return place_at(file_, std::max(0, node.Mark().line) + 1);
  }

  void check(const YAML::Node& node, int level) {
    if (level > most_levels)
      fail(node, "more than " + std::to_string(most_levels) +
                     " levels, or an alias inside of its own anchor");
    if (++nodes_ > most_settings)
      fail(node, "more than " + std::to_string(most_settings) + " values, aliases counted");
    const std::string& tag = node.Tag();
    if (tag != "?" && tag != "!" && !tag.empty())
      fail(node, "the tag '" + tag + "' is not read; give a plain value");
  }

  json value_of(const YAML::Node& node, int level) {
    check(node, level);
    if (node.IsScalar()) return node.Tag() == "!" ? json(node.Scalar()) : plain(node.Scalar());
    if (node.IsSequence()) {
      json list = json::array();
      for (const YAML::Node& each : node) list.push_back(value_of(each, level + 1));
      return list;
    }
    if (!node.IsMap()) return nullptr;
    json object = json::object();
    for (const auto& each : node) {
      const YAML::Node &key = each.first, &value = each.second;
      if (!key.IsScalar()) fail(key, "a name is a word; found a list or a mapping");
      if (object.contains(key.Scalar()))
        fail(key, "'" + key.Scalar() + "' is given twice; keep one");
      object[key.Scalar()] = value_of(value, level + 1);
    }
    return object;
  }

  // Returns the value of a word without quotes: null, a truth value, a number, or the word itself.
  static json plain(const std::string& text) {
    static const std::set<std::string> nothing = {"", "~", "null", "Null", "NULL"};
    static const std::set<std::string> yes = {"true", "True", "TRUE", "yes", "Yes",
                                              "YES",  "on",   "On",   "ON"};
    static const std::set<std::string> no = {"false", "False", "FALSE", "no", "No",
                                             "NO",    "off",   "Off",   "OFF"};
    if (nothing.contains(text)) return nullptr;
    if (yes.contains(text)) return true;
    if (no.contains(text)) return false;
    return number(text);
  }

  static json number(const std::string& text) {
    std::string digits = text;
    std::erase(digits, '_');
    if (digits.starts_with('+')) digits.erase(0, 1);
    const std::size_t first = digits.starts_with('-') ? 1 : 0;
    if (first >= digits.size() || !((digits[first] >= '0' && digits[first] <= '9') ||
                                    (digits[first] == '.' && first + 1 < digits.size())))
      return text;
    const char* const end = digits.data() + digits.size();
    std::int64_t whole = 0;
    if (const auto [stop, error] = std::from_chars(digits.data(), end, whole);
        error == std::errc() && stop == end)
      return whole;
    double real = 0;
    if (const auto [stop, error] = std::from_chars(digits.data(), end, real);
        error == std::errc() && stop == end)
      return real;
    return text;
  }

  const std::string& file_;
  Settings settings_;
  int nodes_ = 0;
};

}  // namespace

Settings read_yaml(const std::string& text, const std::string& file) {
  check_text(text, file);
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    if (documents.empty() || documents.front().IsNull())
      throw InputError(file + ": is empty; a file of settings is needed");
    YamlReader reader(file);
    if (documents.size() > 1)
      reader.fail(documents[1], "a second document; one file holds one job's settings");
    if (!documents.front().IsMap())
      reader.fail(documents.front(), "names with values are needed (`name: value`)");
    reader.add_map(documents.front(), "", 0);
    return reader.take();
  } catch (const YAML::Exception& error) {
    throw InputError(place_at(file, std::max(0, error.mark.line) + 1) +
                     ": is no YAML: " + error.msg);
  }
}

}  // namespace meshwright::interop
