// Which tokens of a sequence the ranks of a context group hold. Under a causal mask a later token
// attends to more others; so a sequence is cut into 2C chunks and rank i holds chunks i and
// 2C-1-i. The queries of any rank then attend to just half of the keys of any other one: every step
// around the ring is equal work for all.
#pragma once

#include <cstdint>

#include "models/program/graph/attributes.h"

namespace meshwright {

// Returns whether this call adds the sinks. They are in a softmax only once, where its sum over the
// keys of all ranks begins.
inline bool adds_sinks(const Attributes& a) { return a.sinks && a.ring_step <= 0; }

// An attention's heads may be shared out over `head_parts` neighbours of a context group, whose
// tokens then make up one part of the sequence: neighbours' chunks are neighbours, so rank r's part
// is that of rank r / head_parts among as many ranks as have parts (context_degree).
constexpr int rank_of_part(const Attributes& a, int context_rank) {
  return context_rank / a.head_parts;
}
// Returns the first head of the rank among those of its tensor group.
constexpr std::int64_t first_own_head(const Attributes& a, int context_rank) {
  return std::int64_t{context_rank % a.head_parts} * a.heads;
}
// Returns the first head of the rank among those of the model.
constexpr std::int64_t first_head_of(const Attributes& a, int tensor_rank, int context_rank) {
  return std::int64_t{tensor_rank} * a.head_parts * a.heads + first_own_head(a, context_rank);
}

// Returns the position in the sequence of the first token of half `half` of what `rank` holds.
constexpr std::int64_t context_half_begin(int degree, int rank, std::int64_t held, int half) {
  return (half == 0 ? rank : 2 * degree - 1 - rank) * (held / 2);
}

// Returns the position in the sequence of token `token` of the `held` tokens of `rank`.
constexpr std::int64_t context_position(int degree, int rank, std::int64_t held,
                                        std::int64_t token) {
  if (degree == 1) return token;
  const int half = token < held / 2 ? 0 : 1;
  return context_half_begin(degree, rank, held, half) + token - half * (held / 2);
}

// Returns the row in whole sequences of row `row` of the tokens of all ranks, those of rank 0
// first. Each rank holds `held` tokens of each of `batch` sequences.
constexpr std::int64_t context_row(int degree, std::int64_t held, std::int64_t batch,
                                   std::int64_t row) {
  const std::int64_t own = row % (batch * held);
  return own / held * held * degree +
         context_position(degree, static_cast<int>(row / (batch * held)), held, own % held);
}

}  // namespace meshwright
