// Translates the YAML settings of Megatron-Bridge and NeMo to the names of Megatron-LM's arguments,
// and back.
#pragma once

#include <span>
#include <string>

#include "tools/interop/bridge/names.h"
#include "tools/interop/job_draft.h"
#include "tools/interop/rules.h"
#include "tools/interop/settings.h"

namespace meshwright::interop {

// Translates settings to Megatron-LM's names. `given` holds the values of --set, which choose among
// the cells of a performance matrix.
Settings translate_bridge(Settings settings, const JobDraft& given);

// Returns Megatron-LM's arguments as the overrides of a ConfigContainer.
Settings bridge_overrides(const Settings& arguments);

// Returns Megatron-LM's rules and two more: one rejects settings of models that are not built here,
// and one is for layers whose saved activations are offloaded to the host.
const Rules& bridge_rules();
std::span<const WithoutMeaning> bridge_without_meaning();

// Translates the settings of one file to Megatron-LM's names. Composite settings are translated by
// hand with say(), then finish() translates the rest by the table.
class Translation {
 public:
  Translation(const Settings& from, std::span<const BridgeName> names);

  // Returns the setting with this name in the file, or null if it is absent or null. The name has
  // no "ConfigContainer." in front and no "_config" after its section, which some files have.
  const Setting* find(std::string_view name) const;
  // Sets `argument` in place of the settings `by`. The first one of them that is present gives the
  // place, and the others count as repeats. Does nothing if none is present.
  void say(std::string_view argument, nlohmann::json value, std::initializer_list<const char*> by);
  // Marks a setting as one that repeats what another setting says, so that an import lists it
  // without a meaning of its own.
  void repeats(std::string_view name);
  // Sets `argument` to the default of a recipe, which messages show under `name`, unless it has
  // been set.
  void usual(std::string_view argument, const char* name, nlohmann::json value);
  [[noreturn]] void fail(const Setting& setting, const std::string& problem) const;

  // Returns all settings: those in the table under their Megatron-LM names, the others under their
  // own names, with a prefix ("class:", "repeats:") if they only name a class or repeat another
  // setting. Call it last.
  Settings finish();

 private:
  void say_row(const BridgeName& row);
  std::vector<Setting> from_;
  std::vector<std::string> names_;  // of from_, in the form that find() takes
  std::vector<bool> done_;
  std::span<const BridgeName> table_;
  Settings to_;
};

// Rejects files of kinds that have no job here, and notes that the language model alone is planned
// of a file that also trains on pictures, if `given` names the model.
void refuse_other_bridge_files(Settings& settings, const JobDraft& given);
// Returns the rule for adapters of LoRA, which are only read.
Rule bridge_adapter_rule();

// Translates mixed_precision, which is a recipe's name (`name`, or null) or the fields
// mixed_precision.*, to Megatron-LM's arguments.
void say_precision(Translation& file, const Setting* name);
void translate_nemo(Translation& file);

// Returns the settings with the chosen cell of `perf_matrix` as settings of a ConfigContainer.
// `given` chooses the cell by machine, number of hosts and precision. Without a matrix, returns the
// settings unchanged. Throws InputError if the matrix has several cells and `given` does not
// choose, or chooses one that it lacks.
Settings choose_from_matrix(const Settings& settings, const JobDraft& given);

}  // namespace meshwright::interop
