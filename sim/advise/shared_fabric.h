// Predicts how much longer the steps of several jobs take if their hosts share the leaf switches of
// one fabric.
//
// Each job sends from a leaf to the spine during a share of its step. At any moment each of the
// other jobs sends or not, independently of the rest. Jobs that send at the same time share the
// link to the spine max-min fairly: a job that wants less than an equal part gets what it wants,
// and the others share the rest. The step of a job is predicted again with its mean slow-down over
// all combinations of other jobs that send. Longer communication meets that of other jobs more
// often, so the shares and the steps are computed up to 10 times, until no share changes by more
// than 0.0001.
#pragma once

#include <string>
#include <vector>

#include "models/compiler/compile.h"
#include "sim/collectives/fabric.h"

namespace meshwright::sim {

struct Tenant {
  std::string name;
  Compiled compiled;
  // Has a fabric, the same for all tenants except for `first_host` and `spine_share`.
  Cluster cluster;
};

struct SharedStep {
  double alone_s = 0, together_s = 0;
  double sends = 0;  // share of the step, if the job is alone, in which it sends to the spine
  // Share of a leaf's bandwidth to the spine that the job gets while it sends.
  double spine_share = 1;
};

// Returns one step for each tenant, in the same order. Throws InputError if two tenants have the
// same host, or if there are more than 16 tenants.
std::vector<SharedStep> share_fabric(const std::vector<Tenant>& tenants);

// Returns the bandwidth that one sender gets in max-min fair sharing of a link. The sender could
// use all of `capacity`, and the others want the bandwidths `wanted`. All values have the same
// unit.
double fair_share(double capacity, std::vector<double> wanted);

}  // namespace meshwright::sim
