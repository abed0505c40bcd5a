// Several jobs whose hosts share the leaves of one fabric: how much longer each one's step takes.
//
// A job sends over the way from a leaf to the spine during a part of its step, in its own time: at
// a moment each of the others is sending or not, independently. While several send, the way is
// shared max-min fairly: who wants less than an equal part gets that, the others share what is
// left. A job's mean slow-down over what the others may be doing is what lengthens its
// communication, which is predicted again with it; longer communication is met more often by the
// others, so this is repeated until nothing changes.
#pragma once

#include <string>
#include <vector>

#include "models/compiler/compile.h"
#include "sim/collectives/fabric.h"

namespace meshwright {

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

// Returns what a sender that could use all of `capacity` gets in max-min fair sharing with others
// that want `wanted`.
double fair_share(double capacity, std::vector<double> wanted);

}  // namespace meshwright
