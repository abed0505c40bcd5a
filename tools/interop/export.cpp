#include "tools/interop/export.h"

#include "models/core/error.h"
#include "tools/interop/expressible.h"

namespace meshwright::interop {

namespace {

Exported as_files(const InteropTarget& target, const JobValues& values, const Settings& settings,
                  const std::vector<std::string>& launchers) {
  Exported exported;
  exported.files = target.files(values, settings);
  if (target.warnings != nullptr) exported.warnings = target.warnings(values);
  const Launch launch = target.launch(values, settings);
  for (const std::string& launcher : launchers.empty() ? launcher_names() : launchers)
    for (LaunchFile& file : launch_files(launcher, launch))
      exported.files.push_back({std::move(file.name), std::move(file.text), file.is_program});
  return exported;
}

}  // namespace

Settings settings_of(const JobValues& values, const InteropTarget& target) {
  Settings settings;
  for (const Rule& rule : target.rules())
    if (rule.write) rule.write(values, settings);
  return settings;
}

Exported export_plan(const Job& job, const Plan& plan, const std::string& machine, int hosts,
                     int gpus_per_host, Framework framework,
                     const std::vector<std::string>& launchers) {
  try {
    check_expressible(framework, plan, job.model);
  } catch (const InputError& error) {
    throw InputError(job.file + ": " + error.what());
  }
  const InteropTarget& target = interop_target(framework);
  const JobValues values(job, as_run_by(framework, plan, job.model), machine, hosts, gpus_per_host);
  return as_files(target, values, settings_of(values, target), launchers);
}

}  // namespace meshwright::interop
