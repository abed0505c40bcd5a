// Attention, backward, without atomics. One pass over blocks of queries computes dQ, and one over
// blocks of keys computes dK and dV. Each recomputes the scores tile by tile, or reads the saved
// probabilities. With P the probabilities, dP = dY V^T, D the factors of dropout, and r the sum of
// dY Y over each row, which a kernel before both passes computes, dS = P (D dP - r), dQ = dS K
// scale, dK = dS^T Q scale, and dV = (D P)^T dY.
//
// If scores are capped, dQ and dK use dS times the cap's derivative. For it, both passes compute
// the products of queries and keys a second time, because no registers are left to keep them.
//
// Without a cap or saved probabilities, heads of d <= 128 elements take 6 d FLOPs for dQ and 8 d
// for dK and dV, for each visible pair of a query and a key. A single pass would save 4 d, but
// would add to dQ in memory in an order that changes from run to run.
#pragma once

#include "exec/backends/cuda/attention/attention_call.h"

namespace meshwright::exec::cuda {

template <typename T>
struct BackwardOperands {
  NearHeads<const T> q, k, v, y, dy;
  NearHeads<T> dq, dk, dv;
  NearHeads<const T> dq_before{};    // from earlier steps around the ring; null: none
  const T* probabilities = nullptr;  // [batch * heads, held, held]; null: recomputed
  float* log_sums;                   // [batch * heads, held], in base 2
  float* row_sums;                   // r of each query, [batch * heads, held]
  // The sums of dS, the gradient of the scores, over the pairs at each distance, separately for
  // each block of queries: `of_blocks` of add_relative_gradient(). Null without relative positions.
  float* distances = nullptr;
};

// Returns how many queries a block of threads has in the pass over queries.
int rows_of_query_gradient(const Device& device, Dtype dtype, int head_dim);

template <typename T>
void query_gradients(const KernelCall& k, const AttentionShape& shape, const ScoreExtras& extras,
                     const BackwardOperands<T>& operands);
template <typename T>
void key_gradients(const KernelCall& k, const AttentionShape& shape, const ScoreExtras& extras,
                   const BackwardOperands<T>& operands);

}  // namespace meshwright::exec::cuda
