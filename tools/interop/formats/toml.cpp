#include <toml++/toml.h>

#include <cmath>

#include "models/core/error.h"
#include "tools/interop/formats/formats.h"
#include "tools/interop/formats/text.h"

namespace meshwright::interop {

namespace {

class TomlReader {
 public:
  explicit TomlReader(const std::string& file) : file_(file) {}

  void add_table(const toml::table& table, const std::string& before) {
    for (const auto& [key, value] : table) {
      const std::string name = before + std::string(key.str());
      if (const toml::table* inner = value.as_table())
        add_table(*inner, name + ".");
      else
        settings_.add(name, value_of(value), place(value));
    }
  }
  Settings take() { return std::move(settings_); }

 private:
  std::string place(const toml::node& node) const {
    return place_at(file_, node.source().begin.line);
  }

  json value_of(const toml::node& node) const {
    if (const auto* word = node.as_string()) return word->get();
    if (const auto* whole = node.as_integer()) return whole->get();
    if (const auto* flag = node.as_boolean()) return flag->get();
    if (const auto* real = node.as_floating_point()) {
      if (std::isfinite(real->get())) return real->get();
      return std::isnan(real->get()) ? "nan" : real->get() < 0 ? "-inf" : "inf";  // JSON has none
    }
    if (const toml::array* array = node.as_array()) {
      json list = json::array();
      for (const toml::node& each : *array) list.push_back(value_of(each));
      return list;
    }
    if (const toml::table* table = node.as_table()) {
      json object = json::object();
      for (const auto& [key, value] : *table) object[std::string(key.str())] = value_of(value);
      return object;
    }
    throw InputError(place(node) + ": dates and times are no settings; give a number or a word");
  }

  const std::string& file_;
  Settings settings_;
};

}  // namespace

Settings read_toml(const std::string& text, const std::string& file) {
  check_text(text, file);
  try {
    const toml::table table = toml::parse(text, file);
    if (table.empty()) throw InputError(file + ": is empty; a file of settings is needed");
    TomlReader reader(file);
    reader.add_table(table, "");
    return reader.take();
  } catch (const toml::parse_error& error) {
    throw InputError(place_at(file, error.source().begin.line) +
                     ": is no TOML: " + std::string(error.description()));
  }
}

}  // namespace meshwright::interop
