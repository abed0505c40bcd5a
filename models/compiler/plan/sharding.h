// Decides which parameters ZeRO shards.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

// Returns the ZeRO stage of a parameter. It is the plan's, with three exceptions: 0 if no ranks
// share the parameter, 0 or 3 if it is not trained and so has no states, and 1 if it stays whole
// under ZeRO 3.
int zero_stage_of(const Plan& plan, const Parameter& parameter);

// Returns whether the parameter is so small that it stays whole under ZeRO 3.
bool stays_whole(const Plan& plan, const Parameter& parameter);

}  // namespace meshwright::compiler
