// Recomputation of a chosen set of tensors, whoever chose them.
#pragma once

#include <vector>

#include "models/program/graph/graph.h"

namespace meshwright {

// `chosen`: per tensor of the differentiated graph, whether the backward phase makes it again
// instead of reading what the forward phase made. Its maker is repeated (phase `recompute`) just
// before the first node that reads it, and what the maker reads, if chosen too, just before that;
// every node at most once. An output of a repeated node that is not chosen is still kept: its
// readers read the kept one. A view and a gradient that takes a tensor's place go with their
// tensor, and so does the part of a sum over ranks, which the sum takes the place of. Chosen
// tensors are activations made in the forward phase whose readers of other phases lie in the
// maker's unit: repetitions stay on its stage.
Graph rematerialize_tensors(const Graph& graph, std::vector<char> chosen);

// Returns the tensor whose memory a view (tensor_copy) or an in-place gradient shares, or else
// `tensor`.
int base_of(const Graph& graph, int tensor);

}  // namespace meshwright
