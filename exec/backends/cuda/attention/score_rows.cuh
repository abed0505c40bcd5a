// Finds the sequence, the head and the query to which a row of all score matrices [sequences *
// heads, length, length] belongs.
#pragma once

#include "exec/backends/cuda/kernels.h"

namespace meshwright::exec::cuda {

struct ScoreRows {
  int heads, length;  // heads of this rank
  explicit ScoreRows(const KernelCall& k)
      : heads(k.attributes().heads), length(static_cast<int>(k.in_shape(0)[1])) {}
  __device__ int query(long long row) const { return static_cast<int>(row % length); }
  __device__ int head(long long row) const { return static_cast<int>(row / length % heads); }
  __device__ long long sequence(long long row) const {
    return row / (static_cast<long long>(length) * heads);
  }
};

}  // namespace meshwright::exec::cuda
