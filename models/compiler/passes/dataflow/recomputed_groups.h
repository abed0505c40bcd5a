// Finds which operations are recomputed together. Such a group corresponds to a checkpointed module
// of SageMaker's library: its inputs are saved, and its operations are recomputed before their
// gradients.
#pragma once

#include <vector>

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

// Returns the group of every node of a differentiated graph, or -1 if the node is not recomputed.
// Gradients are in the group of their operation. A group of several blocks ends where a virtual
// stage of the plan ends. If the plan is not partitioned yet, all blocks count as one stage. Throws
// InputError if recompute_modules names no module of a block.
std::vector<int> recomputed_groups(const Graph& graph, const Plan& plan);

// Returns whether recomputation depends on the plan's stages. It does with groups of several
// blocks, which end where a stage ends, and with a budget, which each stage has.
bool groups_follow_stages(const Training& training);

}  // namespace meshwright::compiler
