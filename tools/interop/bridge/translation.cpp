
#include "models/core/error.h"
#include "tools/interop/bridge/bridge.h"

namespace meshwright::interop {

namespace {

// Returns a setting's name without what wraps it: train.lr for "ConfigContainer.train_config.lr".
// Files of performance recipes wrap everything in ConfigContainer, and early versions gave each
// section the name of its class.
std::string without_wrapping(std::string name) {
  constexpr std::string_view whole = "ConfigContainer.", old = "_config.";
  if (name.starts_with(whole)) name.erase(0, whole.size());
  const std::size_t dot = name.find('.');
  if (dot != std::string::npos && dot + 1 >= old.size() &&
      name.compare(dot + 1 - old.size(), old.size(), old) == 0)
    name.erase(dot + 1 - old.size(), old.size() - 1);
  return name;
}

bool is_part_of_class(std::string_view name) {
  for (const std::string_view end : {"_target_", "_call_", "_args_", "_name_", "_partial_"})
    if (name.ends_with(end)) return true;
  return false;
}

}  // namespace

Translation::Translation(const Settings& from, std::span<const BridgeName> names)
    : from_(from.all()), done_(from_.size(), false), table_(names), to_("", from.has_variables()) {
  for (const Setting& each : from_) names_.push_back(without_wrapping(each.name));
  for (const BridgeName& row : table_)
    if (to_.spelled(std::string(row.megatron)) == row.megatron)
      to_.show_as(std::string(row.megatron), std::string(row.bridge));
}

const Setting* Translation::find(std::string_view name) const {
  for (std::size_t i = 0; i < from_.size(); ++i)
    if (names_[i] == name && !from_[i].value.is_null()) return &from_[i];
  return nullptr;
}

void Translation::say(std::string_view argument, json value,
                      std::initializer_list<const char*> by) {
  bool is_said = false;
  for (const char* name : by)
    for (std::size_t i = 0; i < from_.size(); ++i) {
      if (names_[i] != name || from_[i].value.is_null()) continue;
      if (!is_said) {
        to_.add(std::string(argument), value, from_[i].place);
        to_.show_as(std::string(argument), from_[i].name);
        done_[i] = true;
        is_said = true;
      } else {
        repeats(name);
      }
    }
}

void Translation::repeats(std::string_view name) {
  for (std::size_t i = 0; i < from_.size(); ++i) {
    if (names_[i] != name || done_[i] || from_[i].value.is_null()) continue;
    const std::string as = "repeats:" + from_[i].name;
    to_.add(as, from_[i].value, from_[i].place);
    to_.show_as(as, from_[i].name);
    done_[i] = true;
  }
}

void Translation::usual(std::string_view argument, const char* name, json value) {
  if (to_.has(argument)) return;
  to_.add(std::string(argument), std::move(value), "default of the recipes");
  to_.show_as(std::string(argument), name);
}

void Translation::fail(const Setting& setting, const std::string& problem) const {
  throw InputError(setting.place + ": " + setting.name + ": " + problem);
}

void Translation::say_row(const BridgeName& row) {
  for (std::size_t i = 0; i < from_.size(); ++i) {
    if (names_[i] != row.bridge || done_[i] || from_[i].value.is_null()) continue;
    json value = from_[i].value;
    const std::string argument(row.megatron);
    if (row.value == BridgeValue::off_flag) {
      if (!value.is_boolean()) fail(from_[i], value.dump() + " is not true or false");
      value = value == false;
    }
    // If several settings stand for one feature, the feature is on if one of them turns it on.
    const bool is_first = !to_.has(argument);
    const bool turns_on = row.value == BridgeValue::flag && value == true;
    if (!is_first && !turns_on) {
      repeats(row.bridge);
      continue;
    }
    to_.add(argument, std::move(value), from_[i].place);
    to_.show_as(argument, from_[i].name);
    done_[i] = true;
  }
}

Settings Translation::finish() {
  for (const BridgeName& row : table_) say_row(row);
  for (std::size_t i = 0; i < from_.size(); ++i) {
    if (done_[i]) continue;
    const std::string as = (is_part_of_class(names_[i]) ? "class:" + from_[i].name : names_[i]);
    to_.add(as, from_[i].value, from_[i].place);
    to_.show_as(as, from_[i].name);
  }
  return std::move(to_);
}

}  // namespace meshwright::interop
