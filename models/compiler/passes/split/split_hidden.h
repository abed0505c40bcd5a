// Tensor parallelism that shares the hidden size (tensor layout `memory`: SageMaker's
// `optimize: "memory"`): between all operations a rank holds its columns of every row. Tables are
// cut by the hidden size, products by their inputs with the partial outputs reduce-scattered, norms
// by columns with the rows' statistics shared. No activation lies on two ranks; what is sent is of
// the width of every product's output.
#pragma once

#include <memory>
#include <vector>

#include "models/compiler/passes/split/splitter.h"

namespace meshwright {

std::unique_ptr<Splitter> hidden_splitter(const Graph& whole, int degree, bool own_batch);

// Returns the cuts of the parameters when the token table and the head are split by the hidden
// size, and with `everything` all other parameters too.
std::vector<Cut> cuts_by_hidden(const Graph& whole, int degree, bool everything);

}  // namespace meshwright
