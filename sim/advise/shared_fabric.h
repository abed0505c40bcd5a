// Predicts how much longer the steps of several jobs take if their hosts share the leaf switches of
// one fabric.
//
// Each job sends from a leaf to the spine during a share of its step. At any moment each of the
// other jobs sends or not, independently of the rest. Jobs that send at the same time share the
// link to the spine max-min fairly: a job that wants less than an equal part gets what it wants,
// and the others share the rest. A job's communication is predicted again with its mean slow-down
// over all combinations of other jobs that send. Longer communication meets that of other jobs more
// often, so all this is repeated until the shares no longer change, at most 10 times.
#pragma once

#include <string>
#include <vector>

#include "models/compiler/compile.h"
#include "sim/collectives/fabric.h"

namespace meshwright::sim {

struct Tenant {
  std::string name;
  Compiled compiled;
  Cluster cluster;  // with a fabric: the same for all but for `first_host` and `spine_share`
};

struct SharedStep {
  double alone_s = 0, together_s = 0;
  double sends = 0;        // share of the step, alone, in which something leaves a leaf
  double spine_share = 1;  // of the way to the spine, what the others leave it while it sends
};

// Returns one step for each tenant. Throws InputError if two tenants have the same host, or if
// there are more than 16 tenants.
std::vector<SharedStep> share_fabric(const std::vector<Tenant>& tenants);

// Returns the bandwidth that a sender that could use all of `capacity` gets in max-min fair sharing
// with others that want the bandwidths `wanted`, all in one unit.
double fair_share(double capacity, std::vector<double> wanted);

}  // namespace meshwright::sim
