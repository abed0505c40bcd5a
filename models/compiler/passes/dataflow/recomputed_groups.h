// Which operations are recomputed together: a checkpointed module of SageMaker's library, whose
// inputs are kept and whose inside is made again before its gradients.
#pragma once

#include <vector>

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright {

// Returns the group of every node of a differentiated graph, or -1 if the node is not recomputed.
// Gradients are in the group of their operation. Groups of several blocks end where a virtual stage
// of the plan ends. While the plan is not partitioned yet, all blocks count as one stage.
std::vector<int> recomputed_groups(const Graph& graph, const Plan& plan);

// Whether what is recomputed depends on the plan's stages.
bool groups_follow_stages(const Training& training);

}  // namespace meshwright
