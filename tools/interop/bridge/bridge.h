// Translates the YAML of Megatron-Bridge and NeMo to the names of Megatron-LM's arguments, and
// back.
#pragma once

#include <span>
#include <string>

#include "tools/interop/bridge/names.h"
#include "tools/interop/job_draft.h"
#include "tools/interop/rules.h"
#include "tools/interop/settings.h"

namespace meshwright {

// Translates settings to Megatron-LM's names. `given` holds the values of --set, which choose among
// the rows of a performance matrix.
Settings translate_bridge(Settings settings, const JobDraft& given);

// Returns Megatron-LM's arguments as the overrides of a ConfigContainer.
Settings bridge_overrides(const Settings& arguments);

// Returns Megatron-LM's rules and two more: for settings that no model here supports, and for
// layers that are offloaded from the device.
const Rules& bridge_rules();
std::span<const WithoutMeaning> bridge_without_meaning();

// Translates a file's settings to other names.
class Translation {
 public:
  Translation(const Settings& from, std::span<const BridgeName> names);

  // Returns the setting with this name in the file, where names lack the prefix that wraps a whole
  // file. Null if the setting is absent or null.
  const Setting* find(std::string_view name) const;
  // Says `argument` in place of the settings; the first one that is there gives the place.
  void say(std::string_view argument, nlohmann::json value, std::initializer_list<const char*> by);
  // It says nothing that another setting does not say.
  void repeats(std::string_view name);
  bool has_said(std::string_view argument) const { return to_.has(argument); }
  // Sets `argument` to what a recipe sets, unless the file has set it.
  void usual(std::string_view argument, const char* name, nlohmann::json value);
  [[noreturn]] void fail(const Setting& setting, const std::string& problem) const;

  // Returns the settings under the names of the table, and the remaining ones under their own
  // names.
  Settings finish();

 private:
  void say_row(const BridgeName& row);
  std::vector<Setting> from_;
  std::vector<std::string> names_;  // of from_, without what wraps a whole file
  std::vector<bool> done_;
  std::span<const BridgeName> table_;
  Settings to_;
};

// mixed_precision, as a name or as its fields; `fields` begin so: "mixed_precision.".
void say_precision(Translation& file, const Setting* name);
void translate_nemo(Translation& file);

// Returns the settings with the chosen row of `perf_matrix` as settings of a ConfigContainer.
// Without a matrix, returns the settings unchanged.
Settings choose_from_matrix(const Settings& settings, const JobDraft& given);

}  // namespace meshwright
