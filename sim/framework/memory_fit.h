// Finds the largest batch, or other count, that fits into memory.
#pragma once

#include <cstdint>
#include <functional>

namespace meshwright::sim {

struct MemoryFit {
  bool fits = false;
  std::int64_t bytes = 0;  // what it needs
};

struct LargestBatch {
  int micro_batch = 0;  // 0: not even the smallest fits
  std::int64_t peak_memory_bytes = 0;
};

// Returns the largest count that fits into `limit` bytes, from 1 to 2^20, or 0 if none does. `fit`
// returns the bytes that a count needs, and whether they fit. The bytes must grow with the count,
// nearly linearly.
LargestBatch largest_that_fits(std::int64_t limit, const std::function<MemoryFit(int)>& fit);

}  // namespace meshwright::sim
