// Recomputes a given set of tensors.
#pragma once

#include <vector>

#include "models/program/graph/graph.h"

namespace meshwright::compiler {

// Returns the graph in which the backward phase recomputes tensors instead of reading those of the
// forward phase. `chosen` says for each tensor of the differentiated graph whether it is
// recomputed. The node that makes a chosen tensor is repeated (phase `recompute`) just before the
// first backward node that reads it, and the nodes that make its own chosen inputs just before the
// repetition. Every node is repeated at most once. Readers of an output that is not chosen read the
// saved one, even if its node is repeated.
//
// A view, and a gradient that overwrites a tensor, follow the choice of that tensor. A partial sum
// over ranks follows the choice of the sum, which overwrites it. Chosen tensors must be activations
// of the forward phase. Their backward readers must be in the unit that makes them, so that
// repetitions stay on its stage.
Graph rematerialize_tensors(const Graph& graph, std::vector<char> chosen);

// Returns the tensor whose memory a view (tensor_copy) or an in-place result shares, or else
// `tensor`.
int base_of(const Graph& graph, int tensor);

}  // namespace meshwright::compiler
