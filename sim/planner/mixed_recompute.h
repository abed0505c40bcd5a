// Helps with mixed plans, in which a share of the blocks is recomputed and the other blocks save
// their activations.
#pragma once

#include <cmath>

#include "sim/planner/space.h"

namespace meshwright::sim {

// Returns whether block number `block` is recomputed if the share `fraction` of the blocks is
// recomputed, evenly spread (models/compiler/passes).
inline bool is_repeated(int block, double fraction) {
  constexpr double rounding = 1e-9;
  return std::floor((block + 1) * fraction + rounding) > std::floor(block * fraction + rounding);
}

inline bool is_mixed(const Candidate& candidate) {
  return candidate.recompute != Recompute::none && candidate.recompute_fraction < 1;
}

// Returns how activations are offloaded. The result is none if only optimizer states are offloaded,
// because these do not change the bytes that a forward or a backward saves or works in.
inline Offload offloaded_activations(const Candidate& candidate) {
  return candidate.offload == Offload::optimizer ? Offload::none : candidate.offload;
}

// Returns the candidate without offloading. It describes the blocks of a mixed plan that save their
// activations, because nothing of these blocks is offloaded.
inline Candidate keeping(Candidate candidate) {
  candidate.offload = Offload::none;
  return candidate;
}

}  // namespace meshwright::sim
