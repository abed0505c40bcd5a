// Predicts how long every step of a Script lasts once it has begun, in the order of
// Script::steps(). Each body is priced once, and tasks repeat bodies.
#pragma once

#include <map>
#include <vector>

#include "hwprofiles/topology.h"
#include "models/program/walk.h"
#include "sim/collectives/deduplicated.h"
#include "sim/collectives/select.h"
#include "sim/cost/cost.h"
#include "sim/replay/port_loads.h"

namespace meshwright::sim {

struct StepTimes {
  std::vector<SimTime> lasts;
  // For steps of the compute stream, the time that the host needs to launch their kernels. It is 0
  // for all other steps, and if no host launches kernels one by one.
  std::vector<SimTime> launch;
  std::vector<int> kernels;   // number of kernels that it launches
  std::vector<char> message;  // 1 for messages and for counts of tokens that the host must know
  std::vector<PortLoads> loads;
  bool host_waits = false;  // whether the host waits for messages before it launches more
};

class Durations {
 public:
  Durations(const JobSettings& settings, const Mesh& mesh, const Topology& topology);

  StepTimes of_steps(const Script& script, const std::vector<Rendezvous>& rendezvous_list);

 private:
  SimTime of(const Instruction& instruction, const Script& script, const Rendezvous* rendezvous);
  SimTime collective(const Instruction& instruction);
  SimTime deduplicated(const Instruction& instruction, const ExpertChoices& choices);
  SimTime ring_shift(const Instruction& instruction);
  const Groups& groups(GroupKind kind);
  SimTime message(int from_stage, int to_stage, std::int64_t bytes);

  struct Key {
    int kind, a, b;
    std::int64_t bytes;
    auto operator<=>(const Key&) const = default;
  };

  const Mesh& mesh_;
  const Topology& topology_;
  PortUse ports_;
  CostModel cost_;
  // Factor on compute time, because a step goes on with the slowest of its ranks.
  double straggling_;
  std::map<GroupKind, Groups> groups_;
  std::map<Key, SimTime> known_;
};

}  // namespace meshwright::sim
