// Determines which settings training over AWS's network cards (EFA) needs on a machine.
#include <algorithm>

#include "hwprofiles/load.h"
#include "tools/interop/launch/parts.h"

namespace meshwright::interop {

namespace {

// Machines on which EFA reads and writes GPU memory directly only if FI_EFA_USE_DEVICE_RDMA is set
// (sagemaker-hyperpod-recipes, launcher/efa.py).
constexpr std::string_view asking_for_rdma[] = {"p4d.24xlarge", "p4de.24xlarge", "p5.4xlarge",
                                                "p5.48xlarge"};

}  // namespace

// Returns whether a name looks like that of an EC2 machine with GPUs: a family that begins with p
// or g, a dot, and a size that ends with "xlarge" or is "metal", as in "p4d.24xlarge".
bool is_aws_machine(std::string_view machine) {
  const std::size_t dot = machine.find('.');
  if (dot == std::string_view::npos) return false;
  const std::string_view size = machine.substr(dot + 1);
  const char family = machine.front();
  return (family == 'p' || family == 'g') && (size.ends_with("xlarge") || size == "metal");
}

int efa_cards(std::string_view machine) {
  if (!is_aws_machine(machine)) return 0;
  const auto known = machine_if_known(std::string(machine));
  return known && known->network.efa ? known->network.nics : 0;
}

std::map<std::string, std::string> environment_of(const Launch& launch) {
  std::map<std::string, std::string> environment = launch.environment;
  if (launch.hosts == 1 || efa_cards(launch.machine) == 0) return environment;
  environment.emplace("FI_PROVIDER", "efa");
  if (std::ranges::find(asking_for_rdma, launch.machine) != std::end(asking_for_rdma)) {
    environment.emplace("FI_EFA_USE_DEVICE_RDMA", "1");
    environment.emplace("RDMAV_FORK_SAFE", "1");
  }
  return environment;
}

}  // namespace meshwright::interop
