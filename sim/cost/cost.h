// How long one kernel and one instruction take on one GPU of a cluster: a roofline with the
// machine's efficiency curves and the host's launch cost. Communication is the business of
// sim/collectives.
#pragma once

#include <span>
#include <vector>

#include "hwprofiles/machine.h"
#include "models/graph/graph.h"
#include "models/plan/plan.h"
#include "models/plan/program.h"

namespace meshwright {

class CostModel {
 public:
  CostModel(const Cluster& cluster, const Training& training);

  Seconds time(const Kernel& kernel) const;
  // Device time of a compute or optimizer_step instruction (zero for what moves no data on the
  // device).
  Seconds time(const Instruction& instruction, const Program& program) const;
  int launches(const Instruction& instruction, const Program& program) const;  // kernels it starts
  // Forward and backward compute of every unit of a whole model's forward graph, for the
  // partitioner; and the bytes it holds (parameters with their states plus kept activations).
  std::vector<double> unit_costs(const Graph& forward) const;
  std::vector<double> unit_memory(const Graph& forward) const;

 private:
  Cluster cluster_;
  Training training_;
};

}  // namespace meshwright
