#include "hwprofiles/machine_like.h"

#include <cmath>

#include "hwprofiles/load.h"

namespace meshwright::hwprofiles {

namespace {

// Returns whether a driver's name and a profile's name are of the same kind of GPU: the driver's
// name contains the first word of the profile's name, such as H100 in "NVIDIA H100 80GB HBM3" and
// "H100-SXM5-80GB".
bool same_kind(const std::string& driver, const std::string& profile) {
  const std::string kind = profile.substr(0, profile.find('-'));
  const std::size_t at = driver.find(kind);
  if (at == std::string::npos) return false;
  const auto ends = [&](std::size_t place) {
    return place >= driver.size() || driver[place] == ' ' || driver[place] == '-';
  };
  return ends(at + kind.size()) && (at == 0 || ends(at - 1));
}

}  // namespace

std::optional<Machine> machine_like(const Gpu& gpu, int gpus) {
  std::optional<Machine> best;
  const auto differs = [&](const Machine& machine) {
    return std::pair{std::abs(machine.gpu.memory_bytes - gpu.memory_bytes) > 0.1 * gpu.memory_bytes,
                     machine.gpus != gpus};
  };
  for (const std::string& name : list_machines()) {
    const Machine machine = load_machine(name);
    if (machine.gpu.kind != DeviceKind::gpu || !same_kind(gpu.name, machine.gpu.name) ||
        machine.gpu.sm_count != gpu.sm_count)
      continue;
    if (!best || differs(machine) < differs(*best)) best = machine;
  }
  return best;
}

}  // namespace meshwright::hwprofiles
