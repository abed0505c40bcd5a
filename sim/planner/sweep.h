// Bounds all plans of a branch, loosely and fast, and finds those that may be as good as the known
// ones. Plans that are pruned for a common reason are pruned together.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/planner/bounds.h"

namespace meshwright::sim {

// The reason why plans were pruned. `memory`: they do not fit. `computation`: the bound without
// communication and without idle stages is already too long. `bubble`: it is too long with idle
// stages. `network`: it is too long with communication.
enum class Loss : std::uint8_t { memory, computation, bubble, network };
constexpr int loss_count = 4;

struct Limits {
  double memory_bytes = 0;
  double step_time_s = 0;
};

struct Swept {
  struct Survivor {
    Candidate candidate;
    double step_time_s = 0;  // lower bound
  };
  std::array<std::int64_t, loss_count> lost{};
  // Number of plans that were bounded one by one. The others were pruned together.
  std::int64_t bounded = 0;
  std::vector<Survivor> survivors;
  // The plan with the lowest bound of memory, in bytes, among those that do not fit.
  Candidate nearest;
  double nearest_bytes = 0;  // 0 if `nearest` is not set
};

void sweep(const Branch& branch, BoundMaker& bounds, const Limits& limits, Swept& swept);

}  // namespace meshwright::sim
