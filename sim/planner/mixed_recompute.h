// What becomes of activations: a share of the blocks is recomputed, the others keep theirs.
#pragma once

#include <cmath>

#include "sim/planner/space.h"

namespace meshwright {

// Whether a block is recomputed when a share of them is, evenly spread (models/compiler/passes).
inline bool is_repeated(int block, double fraction) {
  constexpr double rounding = 1e-9;
  return std::floor((block + 1) * fraction + rounding) > std::floor(block * fraction + rounding);
}

inline bool is_mixed(const Candidate& candidate) {
  return candidate.recompute != Recompute::none && candidate.recompute_fraction < 1;
}

// Of what bodies of chunks keep and work in, states that are moved away change nothing.
inline Offload offloaded_activations(const Candidate& candidate) {
  return candidate.offload == Offload::optimizer ? Offload::none : candidate.offload;
}

// The blocks of a mixed plan that keep their activations: nothing of them is moved away.
inline Candidate keeping(Candidate candidate) {
  candidate.offload = Offload::none;
  return candidate;
}

}  // namespace meshwright
