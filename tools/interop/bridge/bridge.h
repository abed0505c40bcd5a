// Megatron-Bridge and NeMo: their YAML in the words of Megatron-LM's arguments, and back.
#pragma once

#include <span>
#include <string>

#include "tools/interop/bridge/names.h"
#include "tools/interop/job_draft.h"
#include "tools/interop/rules.h"
#include "tools/interop/settings.h"

namespace meshwright {

// `given` holds what --set says: it chooses among the rows of a performance matrix.
Settings translate_bridge(Settings settings, const JobDraft& given);

// Megatron-LM's arguments as the overrides of a ConfigContainer.
Settings bridge_overrides(const Settings& arguments);

// Rules that Megatron-LM's do not have: what no model here has, layers that leave the device.
const Rules& bridge_rules();
std::span<const WithoutMeaning> bridge_without_meaning();

// A file's settings on their way to other names.
class Translation {
 public:
  Translation(const Settings& from, std::span<const BridgeName> names);

  // By its name in the file, with what wraps a whole file taken off; null: not there, or null.
  const Setting* find(std::string_view name) const;
  // Says `argument` in place of the settings; the first one that is there gives the place.
  void say(std::string_view argument, nlohmann::json value, std::initializer_list<const char*> by);
  // It says nothing that another setting does not say.
  void repeats(std::string_view name);
  bool has_said(std::string_view argument) const { return to_.has(argument); }
  // What a recipe sets where the file says nothing.
  void usual(std::string_view argument, const char* name, nlohmann::json value);
  [[noreturn]] void fail(const Setting& setting, const std::string& problem) const;

  // Names of the table, and the rest under their own names.
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

// The chosen row of `perf_matrix` as settings of a ConfigContainer; without a matrix: the same.
Settings choose_from_matrix(const Settings& settings, const JobDraft& given);

}  // namespace meshwright
