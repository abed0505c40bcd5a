// Lists the constants of machine profiles that a fit may change: their places in a profile, what is
// assumed of them before any measurement, and which steps depend on them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hwprofiles/machine.h"
#include "models/compiler/plan/plan.h"

namespace meshwright::sim {

// A constant, its place in a profile, and how far a fit may change it: `spread` is the standard
// deviation of its logarithm that is assumed before any measurement, `low` and `high` are its
// limits.
struct TunableConstant {
  std::string_view name;
  std::vector<std::string> kinds;
  double& (*place)(Machine&);
  double start;  // from spec sheets and experience, for machines on which nothing was measured
  double spread, low, high;
  bool (*of_plan)(const Plan&);  // whether a training step with this plan depends on it
};

const std::vector<TunableConstant>& tunable_constants();

// Returns whether the name of the machine, or of its GPU, begins with one of the constant's kinds.
bool concerns(const TunableConstant& constant, const Machine& machine);
bool is_of_links(const TunableConstant& constant);  // whether collectives depend on it

}  // namespace meshwright::sim
