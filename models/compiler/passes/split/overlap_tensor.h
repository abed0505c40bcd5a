// Reorders a unit's backward so that collectives overlap with matmuls. If `parallelism.overlap`
// names tensor, collectives of the tensor group overlap with matmuls that do not need them. The sum
// (or reduce-scatter) of an input's gradient starts as soon as that gradient is computed, before
// the gradients of the same layer's weights. A gather that only a weight's gradient needs starts
// before the matmul that computes the input's gradient.
//
// If it names expert, the all-to-all that takes gradients from the experts' inputs back to the
// tokens' ranks overlaps in the same way. Shared experts, and in the backward the router, then
// overlap with a unit's first all-to-all.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

Graph overlap_tensor(Graph graph, const Plan& plan);

}  // namespace meshwright::compiler
