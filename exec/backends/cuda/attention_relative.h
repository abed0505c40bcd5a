// The table of relative positions (models/graph/relative.h) as attention's kernels read it, and its
// gradient from theirs.
#pragma once

#include "exec/backends/cuda/attention_call.h"

namespace meshwright::cuda {

// Distances of keys from queries: -(held - 1) to held - 1.
inline std::int64_t distances_of(const Attributes& a) {
  return std::int64_t{2} * a.sequence_length - 1;
}

// The bucket of each distance, [distances] i32, and each head's bias, [heads, distances] f32 in
// base 2. Bytes of both, one behind the other:
std::int64_t relative_bias_bytes(const Attributes& a);
// Returns the bias.
const float* make_relative_bias(const KernelCall& k, const void* table, Dtype dtype, void* memory);

// What each block of queries has summed for each distance: [batch, heads, blocks, held + rows - 1],
// the first one of distance 1 - rows - its first query. Adds up all of them for each bucket, in
// order, into table[relative_buckets, heads]. `sums`: [heads, distances] of scratch memory;
// `buckets` as above.
void add_relative_gradient(const KernelCall& k, const float* of_blocks, int rows, float* sums,
                           const int* buckets, float* table);

}  // namespace meshwright::cuda
