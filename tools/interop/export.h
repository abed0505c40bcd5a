// A plan as settings of another framework, ready to start.
#pragma once

#include <string>
#include <vector>

#include "tools/interop/target.h"

namespace meshwright {

struct Exported {
  std::vector<ExportedFile> files;
  std::vector<std::string> warnings;  // what the framework does another way
};

// `plan` with every choice made and stage_of_unit of the compiled plan. `launchers`: words of
// launcher_names(); empty: all of them. InputError where the framework cannot express the plan.
Exported export_plan(const Job& job, const Plan& plan, const std::string& machine, int hosts,
                     int gpus_per_host, Framework framework,
                     const std::vector<std::string>& launchers);

// The settings alone, as the target's rules write them.
Settings settings_of(const JobValues& values, const InteropTarget& target);

}  // namespace meshwright
