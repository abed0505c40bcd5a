// Low-rank adapters (LoRA, Hu et al. 2021): beside a linear layer that training.lora names,
// y = W x becomes W x + (alpha / rank) * B A x, and A and B are all that is trained.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright {

// After the splits: of a layer that is cut by its outputs B is cut as it is and every rank has all
// of A; of one that is cut by its inputs, A and B in turn. So no rank tells another anything more:
// what is whole has partial gradients, which are summed over the tensor group once a step.
Graph add_adapters(Graph graph, const Plan& plan);

}  // namespace meshwright
