// Reorders the operations of a unit's forward or backward so that the tensors that pass between
// them need less memory at their peak. The results stay the same. A greedy order is taken if its
// peak is lower than that of the previous order.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

Graph order_operations(Graph graph, const Plan& plan);

// Returns the peak of live bytes while nodes [begin, end) run. Counts only activations that these
// nodes make and that no other node reads.
std::int64_t peak_of_order(const Graph& graph, int begin, int end);

}  // namespace meshwright::compiler
