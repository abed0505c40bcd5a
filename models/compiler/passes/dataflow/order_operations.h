// Puts the operations of a unit's forward or backward into the order, among those that give the
// same result, in which what they pass to each other takes least memory at its fullest.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright {

Graph order_operations(Graph graph, const Plan& plan);

// Returns the most bytes that are alive at once, counting tensors that nodes [begin, end) make and
// no later node reads.
std::int64_t peak_of_order(const Graph& graph, int begin, int end);

}  // namespace meshwright
