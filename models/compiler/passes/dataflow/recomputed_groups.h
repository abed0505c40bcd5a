// Finds which operations are recomputed together. Such a group is a checkpointed module of
// SageMaker's library: its inputs are saved, and everything inside is recomputed before its
// gradients.
#pragma once

#include <vector>

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

// Returns the group of every node of a differentiated graph, or -1 if the node is not recomputed.
// Gradients are in the group of their operation. Groups of several blocks end where a virtual stage
// of the plan ends. While the plan is not partitioned yet, all blocks count as one stage.
std::vector<int> recomputed_groups(const Graph& graph, const Plan& plan);

// Returns whether recomputation depends on the plan's stages. It does with groups of several
// blocks, which end where a stage ends, and with a budget, which is for a stage.
bool groups_follow_stages(const Training& training);

}  // namespace meshwright::compiler
