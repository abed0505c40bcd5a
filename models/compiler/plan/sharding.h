// Decides which parameters ZeRO shards.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

// Returns the ZeRO stage of a parameter. It is the plan's, with three exceptions. It is 0 if the
// parameter's shard group has one rank. A parameter that is not trained has no states, so its stage
// is 3 if ZeRO 3 shards it, and otherwise 0. A trained parameter that stays whole under ZeRO 3 has
// stage 1.
int zero_stage_of(const Plan& plan, const Parameter& parameter);

// Returns whether the plan uses ZeRO 3 but leaves the parameter whole, because it has fewer
// elements than Parallelism::persistence_threshold.
bool stays_whole(const Plan& plan, const Parameter& parameter);

}  // namespace meshwright::compiler
