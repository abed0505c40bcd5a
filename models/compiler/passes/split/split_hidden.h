// Tensor parallelism over the hidden size: tensor layout `memory`, as SageMaker's `optimize:
// "memory"`. Between operations a rank holds its columns of every row. Tables are split by the
// hidden size, matmuls by their inputs with the partial outputs reduce-scattered, norms by columns
// with the rows' statistics shared. No activation between operations is on two ranks, but each
// matmul communicates the whole width of its output.
#pragma once

#include <memory>
#include <vector>

#include "models/compiler/passes/split/splitter.h"

namespace meshwright::compiler {

std::unique_ptr<Splitter> hidden_splitter(const Graph& whole, int degree, bool own_batch);

// Returns how the parameters are split over `degree` ranks if the token table and the head are
// split by the hidden size. With `everything`, all linear layers are split by their inputs, and
// norms and tables of positions by columns. A bias of a split layer is split by columns, or whole
// if ranks cannot share them. All others keep the split that the model gives them.
std::vector<Cut> cuts_by_hidden(const Graph& whole, int degree, bool everything);

}  // namespace meshwright::compiler
