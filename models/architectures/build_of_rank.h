// Builds graphs for one rank of a tensor group.
#pragma once

#include "models/architectures/model.h"

namespace meshwright::architectures {

// Returns the graph that passes divide for a tensor group of `tensor` ranks. For most models this
// is build_graph(), because split_tensors() knows how to divide their operations. A captured model
// was divided when it was captured, so its graph is that of one rank already. Throws InputError if
// it was not captured for this degree.
Graph build_graph_of_rank(const Model& model, const Training& training, int tensor,
                          bool sequence_parallel);

}  // namespace meshwright::architectures
