// Rates that a kind of GPU was measured to reach, by the shape of the work (measured/*.json, which
// a GPU's profile names).
#pragma once

#include <cstdint>
#include <vector>

#include "hwprofiles/gpu.h"

namespace meshwright::hwprofiles {

// A matrix product in 16 bits, of m x k by k x n.
struct MeasuredProduct {
  std::int64_t m = 0, n = 0, k = 0;
  double flop_per_s = 0;
};

// Fused causal attention with heads of 128 in 16 bits, forward. Half of the scores count.
struct MeasuredAttention {
  double keys = 0, flop_per_s = 0;
};

struct MeasuredRates {
  std::vector<MeasuredProduct> products;
  std::vector<MeasuredAttention> attention;  // may be empty
  double narrow_share = 1;                   // factor for heads of 64 and narrower
  double backward_share = 1;                 // factor for the backward pass
};

// Returns the rates that the GPU's profile names, or null if it names none. They are read once.
// Throws InputError if the file is missing or damaged.
const MeasuredRates* measured_rates(const Gpu& gpu);

}  // namespace meshwright::hwprofiles
