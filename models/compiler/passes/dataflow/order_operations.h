// Reorders the operations of a unit's forward or backward so that the tensors that pass between
// them need less memory at their peak. The result stays the same. A greedy order is taken if its
// peak is lower than that of the order before.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

Graph order_operations(Graph graph, const Plan& plan);

// Returns the most bytes that are live at once, counting only tensors that nodes [begin, end) make
// and no later node reads.
std::int64_t peak_of_order(const Graph& graph, int begin, int end);

}  // namespace meshwright::compiler
