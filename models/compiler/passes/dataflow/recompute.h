// Activation recomputation: forward nodes are repeated before the gradients of their group, so that
// their results are not saved from forward to backward. `full` and `each` repeat whole blocks and
// save only their input (Chen 2016). `contiguous` and `group_N` repeat several blocks of one stage
// together. `selective` repeats attention if it has a score matrix (Korthikanti 2022).
// recompute_fraction is the share of the blocks that are repeated, evenly spread. With sequence
// parallelism, gathered tensors are gathered again. recompute_budget repeats whatever is cheapest
// (recompute_budget.h).
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/device_facts.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

Graph recompute(Graph graph, const Plan& plan, const DeviceFacts& device = {});

}  // namespace meshwright::compiler
