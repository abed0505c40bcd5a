// Reads the rates that a kind of GPU was measured to reach, by the shape of the work
// (measured/*.json, which a GPU's profile names).
#pragma once

#include <cstdint>
#include <vector>

#include "hwprofiles/gpu.h"

namespace meshwright::hwprofiles {

// A matrix multiplication of m x k by k x n, and its measured rate.
struct MeasuredProduct {
  std::int64_t m = 0, n = 0, k = 0;
  double flop_per_s = 0;
};

// Matrix multiplications of all sizes m, n and k of a grid. Some cells may not have been measured.
struct MeasuredProducts {
  std::vector<std::int64_t> m, n, k;
  std::vector<MeasuredProduct> measured;  // by m, then n, then k
  // The index in `measured` of the cell (m[i], n[j], k[l]), at (i * n.size() + j) * k.size() + l.
  // -1 if the cell was not measured.
  std::vector<int> places;
};

// The rate of fused causal attention with heads of 128 in 16 bits, forward. Only half of the FLOPs
// of all scores count.
struct MeasuredAttention {
  double keys = 0, flop_per_s = 0;
};

// The shares of the peak that the second generation of flash attention reaches: forward * n / (n +
// ramp) in a causal forward pass over n keys, and with `backward` in a backward pass. 0 means that
// they are not known.
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

// Returns the measured matrix multiplication whose shape is nearest: the one with the least sum of
// the squared logarithms of the ratios of sizes. `products` must have at least one.
const MeasuredProduct& nearest_product(const MeasuredProducts& products, std::int64_t m,
                                       std::int64_t n, std::int64_t k);
// Returns the measured attention whose number of keys is nearest, by the ratio. `rates` must have
// at least one.
const MeasuredAttention& nearest_attention(const MeasuredRates& rates, std::int64_t keys);

// Returns the rates in the file that the GPU's profile names, or null if it names none. A file is
// read once. Throws InputError if the file is missing or damaged.
const MeasuredRates* measured_rates(const Gpu& gpu);

}  // namespace meshwright::hwprofiles
