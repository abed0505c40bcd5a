#include "tools/machines.h"

#include <cstdio>
#include <filesystem>
#include <memory>

#include "hwprofiles/load.h"
#include "models/core/error.h"
#include "tools/measure.h"

namespace meshwright {

MachineLoader machine_loader(const Options& options) {
  auto local = std::make_shared<std::optional<Machine>>();
  return [options, local](const std::string& name) -> Machine {
    if (name != "local") return load_known_machine(name);
    if (*local) return **local;
    if (std::filesystem::exists(options.local_profile)) {
      *local = load_machine_file(options.local_profile);
    } else {
      if (!options.profile.empty()) throw InputError(options.profile + ": no such profile");
      std::fprintf(stderr,
                   "no profile of this computer yet: measuring it for a few seconds "
                   "(`meshwright calibrate` does it thoroughly and keeps the result)\n");
      *local = measure_this_computer(options, MeasureEffort::quick);
    }
    return **local;
  };
}

Job read_job_of(const Options& options) {
  if (options.operands.size() != 1)
    throw InputError(options.command + ": expected one job file, got " +
                     std::to_string(options.operands.size()));
  Job job = read_job(options.operands[0], options.set,
                     [](const std::string& name) { return machine_facts(name); });
  for (const std::string& warning : job.warnings)
    std::fprintf(stderr, "warning: %s\n", warning.c_str());
  return job;
}

}  // namespace meshwright
