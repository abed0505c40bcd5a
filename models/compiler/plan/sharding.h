// Which parameters ZeRO shards.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright {

// The ZeRO stage of a parameter: the plan's, but for what is shared by no ranks, what is not
// trained and, under ZeRO 3, what is smaller than `persistence_threshold`.
int zero_stage_of(const Plan& plan, const Parameter& parameter);

// Whether it stays whole under ZeRO 3, being small.
bool stays_whole(const Plan& plan, const Parameter& parameter);

}  // namespace meshwright
