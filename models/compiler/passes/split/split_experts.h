// Expert parallelism: in a group of P ranks, every rank has E/P of the E experts of each block. An
// all-to-all sends the slots of a rank's tokens (of dropless experts: their rows) to the ranks that
// have their experts, and another one returns the results (Lepikhin et al., "GShard", 2020).
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

Graph split_experts(Graph graph, const Plan& plan);

}  // namespace meshwright::compiler
