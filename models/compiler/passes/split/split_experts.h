// Expert parallelism: every rank of an expert group has E/P of the experts of each block. The slots
// of its tokens go to the ranks that have their experts and the results come back, in exchanges of
// all ranks with all (Lepikhin et al., "GShard", 2020).
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright {

Graph split_experts(Graph graph, const Plan& plan);

}  // namespace meshwright
