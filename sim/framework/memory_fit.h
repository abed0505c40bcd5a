// Finds the largest batch, or other count, that fits into memory.
#pragma once

#include <cstdint>
#include <functional>

namespace meshwright::sim {

struct MemoryFit {
  bool fits = false;
  std::int64_t bytes = 0;  // bytes that the tried count needs
};

struct LargestBatch {
  int micro_batch = 0;  // 0: not even a micro-batch of 1 fits
  std::int64_t peak_memory_bytes = 0;
};

// Returns the largest count from 1 to 2^20 that fits, with its bytes, or 0 if 1 does not fit. `fit`
// returns the bytes that a count needs and whether they fit. The bytes should grow nearly linearly
// with the count, so that few counts are tried. `limit` is the available memory in bytes, from
// which the next count to try is guessed.
LargestBatch largest_that_fits(std::int64_t limit, const std::function<MemoryFit(int)>& fit);

}  // namespace meshwright::sim
