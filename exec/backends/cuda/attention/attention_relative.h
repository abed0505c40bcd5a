// Prepares the table of relative positions (models/program/graph/relative.h) for attention's
// kernels, and computes the table's gradient from the sums that these kernels make.
#pragma once

#include "exec/backends/cuda/attention/attention_call.h"

namespace meshwright::exec::cuda {

// Writes each head's bias for each distance to `memory`, which has relative_bias_bytes() bytes, in
// the layout of ScoreExtras::bias. Returns `memory`.
const float* make_relative_bias(const KernelCall& k, const void* table, Dtype dtype, void* memory);

// Adds to the gradient `table` [relative_buckets, heads], in a fixed order, the sums by distance
// that blocks of `rows` queries have made. `of_blocks` holds these sums, [batch, heads, blocks,
// held + rows - 1], where `held` is the sequence length and a block's first sum is for distance 1 -
// rows - (the block's first query). `sums` is scratch memory for [heads, 2 held - 1] floats.
void add_relative_gradient(const KernelCall& k, const float* of_blocks, int rows, float* sums,
                           void* table, Dtype dtype);

}  // namespace meshwright::exec::cuda
