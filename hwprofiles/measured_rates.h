// Rates that a kind of GPU was measured to reach, by the shape of the work (measured/*.json, which
// a GPU's profile names).
#pragma once

#include <cstdint>
#include <vector>

#include "hwprofiles/gpu.h"

namespace meshwright::hwprofiles {

// A matrix product of m x k by k x n.
struct MeasuredProduct {
  std::int64_t m = 0, n = 0, k = 0;
  double flop_per_s = 0;
};

// Products of every size m, n and k of a grid. Few cells of it were not measured.
struct MeasuredProducts {
  std::vector<std::int64_t> m, n, k;
  std::vector<MeasuredProduct> measured;  // by m, then n, then k
  // The place in `measured` of the cell (i, j, l), at (i * n.size() + j) * k.size() + l. -1: none.
  std::vector<int> places;
};

// Fused causal attention with heads of 128 in 16 bits, forward. Half of the scores count.
struct MeasuredAttention {
  double keys = 0, flop_per_s = 0;
};

// The shares of the peak that the second generation of flash attention reaches: of a causal pass
// over n keys, n / (n + ramp) of `forward` and of `backward`. 0: not known.
struct FlashShares {
  double forward = 0, backward = 0, ramp = 0;
};

struct MeasuredRates {
  MeasuredProducts products;                 // in 16 bits
  MeasuredProducts products_in_8_bits;       // without quantization; may have none
  std::vector<MeasuredAttention> attention;  // may be empty
  double narrow_share = 1;                   // factor for heads of 64 and narrower
  double backward_share = 1;                 // factor for the backward pass
  FlashShares flash2;
};

// Returns the measured product whose shape is nearest: the one with the least sum of the squared
// logarithms of the ratios of sizes. There is at least one.
const MeasuredProduct& nearest_product(const MeasuredProducts& products, std::int64_t m,
                                       std::int64_t n, std::int64_t k);
// The same of attention, by the number of keys. `rates` has at least one.
const MeasuredAttention& nearest_attention(const MeasuredRates& rates, std::int64_t keys);

// Returns the rates that the GPU's profile names, or null if it names none. They are read once.
// Throws InputError if the file is missing or damaged.
const MeasuredRates* measured_rates(const Gpu& gpu);

}  // namespace meshwright::hwprofiles
