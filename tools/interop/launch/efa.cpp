// Knows the settings that training over AWS's network cards (EFA) needs.
#include <algorithm>

#include "tools/interop/launch/parts.h"

namespace meshwright::interop {

namespace {

// The EFA network cards of a machine. Source of their number: karpenter-provider-aws,
// pkg/providers/instancetype/zz_generated.vpclimits.go, as in hwprofiles/machines. `rdma` says that
// GPUs are read and written over the network only if FI_EFA_USE_DEVICE_RDMA asks for it
// (sagemaker-hyperpod-recipes, launcher/efa.py). On later machines libfabric turns it on by itself.
struct Row {
  std::string_view machine;
  int cards;
  bool rdma = false;
};
constexpr Row rows[] = {
    {"g4dn.8xlarge", 1},       {"g4dn.12xlarge", 1},       {"g4dn.16xlarge", 1},
    {"g4dn.metal", 1},         {"g5.8xlarge", 1},          {"g5.12xlarge", 1},
    {"g5.16xlarge", 1},        {"g5.24xlarge", 1},         {"g5.48xlarge", 1},
    {"g6.8xlarge", 1},         {"g6.12xlarge", 1},         {"g6.16xlarge", 1},
    {"g6.24xlarge", 1},        {"g6.48xlarge", 1},         {"g6e.8xlarge", 1},
    {"g6e.12xlarge", 1},       {"g6e.16xlarge", 1},        {"g6e.24xlarge", 2},
    {"g6e.48xlarge", 4},       {"g7e.48xlarge", 4},        {"p3dn.24xlarge", 1},
    {"p4d.24xlarge", 4, true}, {"p4de.24xlarge", 4, true}, {"p5.4xlarge", 1, true},
    {"p5.48xlarge", 32, true}, {"p5e.48xlarge", 32},       {"p5en.48xlarge", 16},
    {"p6-b200.48xlarge", 8},   {"p6-b300.48xlarge", 16},   {"p6e-gb200.36xlarge", 4},
};

const Row* row_of_machine(std::string_view machine) {
  const auto* found = std::find_if(std::begin(rows), std::end(rows),
                                   [&](const Row& row) { return row.machine == machine; });
  return found == std::end(rows) ? nullptr : found;
}

}  // namespace

int efa_cards(std::string_view machine) {
  const Row* row = row_of_machine(machine);
  return row == nullptr ? 0 : row->cards;
}

// Returns whether a name is that of an EC2 machine with GPUs: a family that begins with p or g, a
// dot and a size, as in "p4d.24xlarge".
bool is_aws_machine(std::string_view machine) {
  const std::size_t dot = machine.find('.');
  if (dot == std::string_view::npos) return false;
  const std::string_view size = machine.substr(dot + 1);
  const char family = machine.front();
  return (family == 'p' || family == 'g') && (size.ends_with("xlarge") || size == "metal");
}

std::map<std::string, std::string> environment_of(const Launch& launch) {
  std::map<std::string, std::string> environment = launch.environment;
  const Row* row = row_of_machine(launch.machine);
  if (row == nullptr || launch.hosts == 1) return environment;
  environment.emplace("FI_PROVIDER", "efa");
  if (row->rdma) {
    environment.emplace("FI_EFA_USE_DEVICE_RDMA", "1");
    environment.emplace("RDMAV_FORK_SAFE", "1");
  }
  return environment;
}

}  // namespace meshwright::interop
