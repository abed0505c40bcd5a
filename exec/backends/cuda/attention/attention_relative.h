// The table of relative positions (models/program/graph/relative.h) as attention's kernels read it,
// and its gradient from theirs.
#pragma once

#include "exec/backends/cuda/attention/attention_call.h"
#include "models/program/graph/gpu_scratch.h"

namespace meshwright::cuda {

// Makes the bias of each head in the layout of ScoreExtras, in `memory` of relative_bias_bytes().
const float* make_relative_bias(const KernelCall& k, const void* table, Dtype dtype, void* memory);

// Adds up, for each bucket and in order, what each block of queries has summed for each distance,
// into table[relative_buckets, heads]. `of_blocks` holds these sums: [batch, heads, blocks, held +
// rows - 1], the first one of distance 1 - rows - its first query. `sums` is scratch memory for
// [heads, 2 held - 1].
void add_relative_gradient(const KernelCall& k, const float* of_blocks, int rows, float* sums,
                           void* table, Dtype dtype);

}  // namespace meshwright::cuda
