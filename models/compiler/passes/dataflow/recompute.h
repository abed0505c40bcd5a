// Activation recomputation: forward nodes are repeated before the gradients of their group, so that
// their results are not saved from forward to backward. `full` and `each` repeat whole blocks and
// save only their input (Chen 2016). `contiguous` and `group_N` repeat several blocks of one stage
// together. recompute_fraction is the share of the blocks that are repeated, evenly spread.
// recompute_modules repeats the modules that it names. `selective` repeats attention if it has a
// score matrix (Korthikanti 2022), and for torchtitan it chooses by operation
// (recompute_operators.h). recompute_budget repeats the cheapest tensors (recompute_budget.h). If
// ranks hold shares of the rows, gathered tensors are always gathered again.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/device_facts.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

Graph recompute(Graph graph, const Plan& plan, const DeviceFacts& device = {});

}  // namespace meshwright::compiler
