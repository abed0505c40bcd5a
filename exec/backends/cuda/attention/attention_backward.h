// Attention, backward, without atomics: a pass over blocks of queries makes dQ, one over blocks of
// keys dK and dV, each with the scores made again tile by tile (or the probabilities read, where
// they were kept). With P the probabilities, dP = dY V^T, D what dropout leaves of each, and
// r = rowsum(dY Y), which a kernel before them makes:
//   dS = P (D dP - r),  dQ = dS K scale,  dK = dS^T Q scale,  dV = (D P)^T dY.
// Where scores are capped, dQ and dK are of dS times the cap's derivative, for which both passes
// make the products of queries and keys once more: registers for it from the first time are none.
// FLOPs for each pair of a query and a key that meet: 6 d and 8 d, of which a single pass, adding
// to dQ in memory in an order that changes from run to run, would save 4 d.
#pragma once

#include "exec/backends/cuda/attention/attention_call.h"

namespace meshwright::cuda {

template <typename T>
struct BackwardOperands {
  NearHeads<const T> q, k, v, y, dy;
  NearHeads<T> dq, dk, dv;
  NearHeads<const T> dq_before{};    // of earlier steps around the ring; null: none
  const T* probabilities = nullptr;  // [batch * heads, held, held]; null: made again
  float* log_sums;                   // [batch * heads, held], in base 2
  float* row_sums;                   // the same of r
  // Sums of dS (the gradient of the scores) over the pairs of each distance, apart for each block
  // of queries: `of_blocks` of add_relative_gradient(). Null without relative positions.
  float* distances = nullptr;
};

// Rows of a block of queries in the pass over them.
int rows_of_query_gradient(const Device& device, Dtype dtype, int head_dim);

template <typename T>
void query_gradients(const KernelCall& k, const AttentionShape& shape, const ScoreExtras& extras,
                     const BackwardOperands<T>& operands);
template <typename T>
void key_gradients(const KernelCall& k, const AttentionShape& shape, const ScoreExtras& extras,
                   const BackwardOperands<T>& operands);

}  // namespace meshwright::cuda
