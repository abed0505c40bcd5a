// Pads the vocabulary to a multiple of 128 * tensor. Padded rows of the table are zero, masked out
// of the softmax and get no gradient. They are left out of counts, hashes and saved files.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

std::int64_t padded_vocabulary(std::int64_t vocabulary, int tensor);

Graph pad_vocabulary(Graph graph, const Plan& plan);

}  // namespace meshwright::compiler
