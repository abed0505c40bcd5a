// Assigns the tokens of a sequence to the C ranks of a context group. Under a causal mask a later
// token attends to more keys. So a sequence is cut into 2C chunks, and rank i holds chunks i and
// 2C-1-i. Each rank then computes half of the scores between its queries and the keys of any other
// rank, so that every step around the ring is equal work for all.
#pragma once

#include <cstdint>

#include "models/program/graph/attributes.h"

namespace meshwright::program {

// Returns whether this call of attention adds the sinks (Attributes::sinks). A softmax has them
// only once, so only the first step of a ring adds them, or a call that has the keys of all ranks.
inline bool adds_sinks(const Attributes& a) { return a.sinks && a.ring_step <= 0; }

// Returns the index of the part of the sequence that a rank's attention works on. `head_parts`
// neighbours of a context group may divide the heads of an attention among themselves. Their tokens
// then make up one part of the sequence, which is that of rank context_rank / head_parts in a group
// of context_degree ranks.
constexpr int rank_of_part(const Attributes& a, int context_rank) {
  return context_rank / a.head_parts;
}
// Returns the index of the rank's first head among the heads of all ranks with its tensor index.
constexpr std::int64_t first_own_head(const Attributes& a, int context_rank) {
  return std::int64_t{context_rank % a.head_parts} * a.heads;
}
// Returns the index of the rank's first head among the heads of the model.
constexpr std::int64_t first_head_of(const Attributes& a, int tensor_rank, int context_rank) {
  return std::int64_t{tensor_rank} * a.head_parts * a.heads + first_own_head(a, context_rank);
}

// Returns the position in the sequence at which the first (`half` 0) or second (1) chunk of `rank`
// begins. The rank holds `held` tokens of the sequence, in a group of `degree` ranks.
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

// Converts rows that are ordered by rank into rows of whole sequences. `row` counts the tokens of
// all ranks, those of rank 0 first; each rank holds `held` tokens of each of `batch` sequences.
// Returns the row of the same token when whole sequences follow each other.
constexpr std::int64_t context_row(int degree, std::int64_t held, std::int64_t batch,
                                   std::int64_t row) {
  const std::int64_t own = row % (batch * held);
  return own / held * held * degree +
         context_position(degree, static_cast<int>(row / (batch * held)), held, own % held);
}

}  // namespace meshwright::program
