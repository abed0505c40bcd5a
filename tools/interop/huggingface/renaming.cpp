#include "tools/interop/huggingface/renaming.h"

namespace meshwright::interop {

const Setting* find_setting(const Settings& settings, std::string_view name) {
  for (const Setting& each : settings.all())
    if (same_name(each.name, name)) return &each;
  return nullptr;
}

void rename_setting(Settings& settings, std::string_view other, std::string_view name) {
  const Setting* found = find_setting(settings, other);
  if (found == nullptr) return;
  const Setting setting = *found;
  const std::string spelling = settings.spelled(setting.name);
  settings.remove(other);
  if (setting.value.is_null()) return;
  settings.remove(name);
  settings.add(std::string(name), setting.value, setting.place);
  settings.show_as(std::string(name), spelling);
}

void imply_setting(Settings& settings, const std::string& name, json value, std::string_view by) {
  const Setting* found = find_setting(settings, by);
  if (found == nullptr || settings.has(name)) return;
  const std::string place = found->place, spelling = settings.spelled(found->name);
  settings.add(name, std::move(value), place);
  settings.show_as(name, spelling);
}

bool is_on(const Settings& settings, std::string_view name) {
  const Setting* found = find_setting(settings, name);
  return found != nullptr && (found->value == true || found->value == "true" ||
                              found->value == "True" || found->value == "1");
}

bool is_off(const json& value) {
  return value.is_null() || value == false || value == "false" || value == "False" ||
         value == "none" || value == "None" || value == "";
}

}  // namespace meshwright::interop
