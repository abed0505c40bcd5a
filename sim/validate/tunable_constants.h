// Lists the constants of machine profiles that a fit may change: their places, what is assumed of
// them before any measurement, and which steps depend on them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hwprofiles/machine.h"
#include "models/compiler/plan/plan.h"

namespace meshwright::sim {

// A constant, its place in a profile, and how far a fit may change it. `spread` is the standard
// deviation of its logarithm that is assumed before any measurement.
struct TunableConstant {
  std::string_view name;
  std::vector<std::string> kinds;
  double& (*place)(Machine&);
  double start;  // from spec sheets and experience: what is taken where nothing was measured
  double spread, low, high;
  bool (*of_plan)(const Plan&);  // which training steps depend on it
};

const std::vector<TunableConstant>& tunable_constants();

// Returns whether the name of the machine, or of its GPU, begins with one of the constant's kinds.
bool concerns(const TunableConstant& constant, const Machine& machine);
bool is_of_links(const TunableConstant& constant);  // collectives depend on these only

}  // namespace meshwright::sim
