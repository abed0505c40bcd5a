// Which operations are recomputed together: a checkpointed module of SageMaker's library, whose
// inputs are kept and whose inside is made again before its gradients.
#pragma once

#include <vector>

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright {

// The group of every node of a differentiated graph, gradients in that of their operation; -1: not
// recomputed. Groups of several blocks end where a virtual stage of the plan ends; while the plan
// is not partitioned yet, all blocks count as one stage.
std::vector<int> recomputed_groups(const Graph& graph, const Plan& plan);

// Whether what is recomputed depends on the plan's stages.
bool groups_follow_stages(const Training& training);

}  // namespace meshwright
