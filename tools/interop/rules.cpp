#include "tools/interop/rules.h"

#include <algorithm>

#include "models/core/error.h"

namespace meshwright::interop {

namespace {

// Returns a rule for one key and one setting. `get` returns the setting's value as a value of the
// key, or null if the setting has none. `missing` then replaces it. `put` returns the value to
// write, or null to write nothing.
Rule simple_rule(std::string key, std::string setting, json missing,
                 std::function<json(Settings&, const std::string&)> get,
                 std::function<json(const json&)> put) {
  Rule rule;
  rule.keys = {key};
  rule.settings = {setting};
  rule.read = [key, setting, missing = std::move(missing), get](Settings& from, JobDraft& to) {
    json value = get(from, setting);
    if (value.is_null()) value = missing;
    if (!value.is_null()) to.set(key, std::move(value));
  };
  rule.write = [key, setting, put](const JobValues& from, Settings& to) {
    json value = put(from[key]);
    if (!value.is_null()) to.add(setting, std::move(value));
  };
  return rule;
}

json itself(const json& value) { return value; }

template <class T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

}  // namespace

Rule whole_rule(std::string key, std::string setting, json missing) {
  return simple_rule(
      std::move(key), std::move(setting), std::move(missing),
      [](Settings& from, const std::string& name) { return or_null(from.whole(name)); }, itself);
}

Rule number_rule(std::string key, std::string setting, json missing) {
  return simple_rule(
      std::move(key), std::move(setting), std::move(missing),
      [](Settings& from, const std::string& name) { return or_null(from.number(name)); }, itself);
}

Rule flag_rule(std::string key, std::string setting, bool write_false) {
  return simple_rule(
      std::move(key), std::move(setting), nullptr,
      [](Settings& from, const std::string& name) { return or_null(from.flag(name)); },
      [write_false](const json& value) {
        return value == true || write_false ? value : json(nullptr);
      });
}

Rule off_rule(std::string key, std::string setting) {
  return simple_rule(
      std::move(key), std::move(setting), nullptr,
      [](Settings& from, const std::string& name) {
        const std::optional<bool> off = from.flag(name);
        return off ? json(!*off) : json(nullptr);
      },
      [](const json& value) { return value == false ? json(true) : json(nullptr); });
}

Rule words_rule(std::string key, std::string setting,
                std::vector<std::pair<std::string, std::string>> words, json missing) {
  return simple_rule(
      std::move(key), std::move(setting), std::move(missing),
      [words](Settings& from, const std::string& name) {
        std::vector<std::string> known;
        for (const auto& [ours, theirs] : words) known.push_back(theirs);
        const std::optional<std::string> word = from.word(name, known);
        if (!word) return json(nullptr);
        return json(words[std::ranges::find(known, *word) - known.begin()].first);
      },
      [words](const json& value) {
        for (const auto& [ours, theirs] : words)
          if (value == ours) return json(theirs);
        MESHWRIGHT_CHECK(false, "a limit of the framework keeps other words away");
        return json(nullptr);
      });
}

}  // namespace meshwright::interop
