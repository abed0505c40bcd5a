// Fuses the matmul that makes the logits, the cross-entropy and all their gradients into one
// operation of the backward that works on some rows at a time, so that only the logits of one block
// are in memory. If ranks share the vocabulary, these operations are not fused, because the ranks
// exchange the rows' sums between the two halves.
#pragma once

#include <cstdint>

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

// Least bytes of logits in a block, if blocks are made because memory is short.
constexpr std::int64_t least_loss_block_bytes = 128 << 20;

// Describes the blocks of the loss that the pass has made in the graph. If `rows` is 0, it has made
// none.
struct LossBlocks {
  int node = -1;
  std::int64_t rows = 0, block_rows = 0;
  std::int64_t row_bytes = 0;            // bytes of a row's logits
  std::int64_t memory_bytes_of_row = 0;  // bytes in device memory for each row of a block
};
LossBlocks loss_blocks(const Graph& graph);

Graph fuse_loss(Graph graph, const Plan& plan);

}  // namespace meshwright::compiler
