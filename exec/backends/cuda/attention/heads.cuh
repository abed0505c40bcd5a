// Finds the queries, keys and values of each head in a tensor, and copies heads between tensors of
// different layouts.
#pragma once

#include <array>

#include "exec/backends/cuda/rows/rows.cuh"

namespace meshwright::exec::cuda {

// The heads of a tensor: head h of token r begins at data + r * row + h * head.
template <typename T>
struct Heads {
  T* data = nullptr;
  long long row = 0, head = 0;
  __device__ T* at(long long token, long long h) const { return data + token * row + h * head; }
};

template <typename T>
struct QueryKeyValue {
  Heads<T> q, k, v;
};

// Returns the heads of queries, keys and values in the operands of attention: in the packed tensor
// tensors[0], or in three tensors, one for each.
template <typename T>
QueryKeyValue<T> heads_of(const Attributes& a, const std::array<T*, 3>& tensors) {
  const long long dim = a.head_dim, heads = a.heads, kv_heads = a.kv_heads;
  T* const first = tensors[0];
  if (a.packing == Packing::concatenated) {
    const long long row = (heads + 2 * kv_heads) * dim;
    return {{first, row, dim},
            {first + heads * dim, row, dim},
            {first + (heads + kv_heads) * dim, row, dim}};
  }
  if (a.packing == Packing::per_head) {
    MESHWRIGHT_CHECK(kv_heads == heads, "packed by head, each head has keys and values");
    const long long row = heads * 3 * dim;
    return {{first, row, 3 * dim}, {first + dim, row, 3 * dim}, {first + 2 * dim, row, 3 * dim}};
  }
  return {{tensors[0], heads * dim, dim},
          {tensors[1], kv_heads * dim, dim},
          {tensors[2], kv_heads * dim, dim}};
}

// Copies all heads of one tensor to another, for up to three pairs of tensors. The i-th pair has
// heads[i] heads.
template <typename T>
struct CopyHeads {
  using Element = T;
  Heads<const T> from[3];
  Heads<T> to[3];
  int heads[3];
  int dim;

  __device__ long long place(long long row) const { return row; }
  template <typename E>
  __device__ E* of(const Heads<E> (&tensors)[3], long long row, long long column) const {
    int head = static_cast<int>(column) / dim, i = 0;
    while (i < 2 && head >= heads[i]) head -= heads[i++];
    return tensors[i].at(row, head) + static_cast<int>(column) % dim;
  }
  __device__ T* at(long long row, long long column) const { return of(to, row, column); }
  template <int n>
  __device__ Chunk<T, n> make(long long row, long long column) const {
    return chunk_at<n>(of(from, row, column));
  }
};

template <int vector, typename T>
void copy_heads(const KernelCall& k, std::int64_t rows, const CopyHeads<T>& copies) {
  const std::int64_t heads = std::int64_t{copies.heads[0]} + copies.heads[1] + copies.heads[2];
  for_each_row<vector>(k, rows, heads * copies.dim, copies);
}

}  // namespace meshwright::exec::cuda
