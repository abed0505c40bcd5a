// Exports a plan as settings of another framework, with the files that start the run.
#pragma once

#include <string>
#include <vector>

#include "tools/interop/target.h"

namespace meshwright::interop {

struct Exported {
  std::vector<ExportedFile> files;
  std::vector<std::string> warnings;  // how a run of these files differs from the plan, a line each
};

// Returns the files of an export: the settings, and the files with which each launcher starts them.
// `plan` has every choice made, and the stage_of_unit of the compiled plan. `launchers` are words
// of launcher_names(). If the list is empty, all of them are used. Throws InputError if the
// framework cannot express the plan.
Exported export_plan(const Job& job, const Plan& plan, const std::string& machine, int hosts,
                     int gpus_per_host, Framework framework,
                     const std::vector<std::string>& launchers);

// Returns the settings that the target's rules write for these values, without files.
Settings settings_of(const JobValues& values, const InteropTarget& target);

}  // namespace meshwright::interop
