// Describes a framework that `import` and `export` can name: how its settings are read and written,
// and which command starts it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/compiler/frameworks/framework.h"
#include "tools/interop/launch/launch.h"
#include "tools/interop/rules.h"

namespace meshwright::interop {

// A file of an export, to be written in the export's folder.
struct ExportedFile {
  std::string name;
  std::string text;
  bool is_program = false;  // may be executed
};

struct InteropTarget {
  Framework framework;
  std::string_view title;  // "Megatron-LM, arguments of pretrain_gpt.py"
  const Rules& (*rules)();
  std::span<const WithoutMeaning> without_meaning;
  // Returns the files that hold the settings. launch/ writes the files that start the run.
  std::vector<ExportedFile> (*files)(const JobValues& job, const Settings& settings);
  // Returns the program and its arguments that each host runs in the folder of the exported files.
  // It has no words if a service starts the run.
  Launch (*launch)(const JobValues& job, const Settings& settings);
  // Translates the names of the settings that were read from the framework's files to the names in
  // rules(), before these rules are applied. `given` holds the values of --set. Null if no
  // translation is needed.
  Settings (*translate)(Settings settings, const JobDraft& given) = nullptr;
  // Returns how the framework spells a name of the rules, for messages. Null if it spells names as
  // the rules do.
  std::string (*spelled)(std::string_view name) = nullptr;
  // Returns a line for each way in which a run of the exported files differs from the plan. Null if
  // this framework has no such lines.
  std::vector<std::string> (*warnings)(const JobValues& job) = nullptr;
};

// Returns a launch with the job's name, machine and ranks, and without a command.
Launch launch_of(const JobValues& job);

extern const InteropTarget megatron_lm_target, megatron_bridge_target, torchtitan_target,
    deepspeed_target, accelerate_target, sagemaker_target, hyperpod_target;

// Returns all targets in the order of framework_names().
std::span<const InteropTarget* const> all_targets();
const InteropTarget& interop_target(Framework framework);

}  // namespace meshwright::interop
