// The product that makes the logits, the cross-entropy and all their gradients become one operation
// on some rows at a time, in the backward: what lies in memory is the logits of one block. Where
// ranks share the vocabulary, the rows' sums are exchanged between the two halves, and they stay
// apart.
#pragma once

#include <cstdint>

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright {

// Blocks of no fewer logits are made because memory is short.
constexpr std::int64_t least_loss_block_bytes = 128 << 20;

// What it has made in the graph. No rows: nothing.
struct LossBlocks {
  int node = -1;
  std::int64_t rows = 0, block_rows = 0;
  std::int64_t row_bytes = 0;            // of logits
  std::int64_t memory_bytes_of_row = 0;  // what lies in memory of a block's row
};
LossBlocks loss_blocks(const Graph& graph);

Graph fuse_loss(Graph graph, const Plan& plan);

}  // namespace meshwright
