// A framework as the command line names it: how its settings are read and written, what starts it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/compiler/frameworks/framework.h"
#include "tools/interop/launch/launch.h"
#include "tools/interop/rules.h"

namespace meshwright {

// A file of an export, in its folder.
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
  // The files that hold the settings; those that start the run are the launchers' (launch/).
  std::vector<ExportedFile> (*files)(const JobValues& job, const Settings& settings);
  // What runs on each host of what those files say.
  Launch (*launch)(const JobValues& job, const Settings& settings);
  // From the files' names to those of the rules, before these are applied; `given` holds what --set
  // says. Null: they are the same.
  Settings (*translate)(Settings settings, const JobDraft& given) = nullptr;
  // How the framework spells a name of the rules, for people. Null: as the rules do.
  std::string (*spelled)(std::string_view name) = nullptr;
  // What a file of the export does another way than the plan, a line each. Null: nothing.
  std::vector<std::string> (*warnings)(const JobValues& job) = nullptr;
};

// With the job's name, machine and ranks, and nothing to start.
Launch launch_of(const JobValues& job);

extern const InteropTarget megatron_lm_target, megatron_bridge_target, torchtitan_target,
    deepspeed_target, accelerate_target, sagemaker_target, hyperpod_target;

// In the order of framework_names().
std::span<const InteropTarget* const> all_targets();
const InteropTarget& interop_target(Framework framework);

}  // namespace meshwright
