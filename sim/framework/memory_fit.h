// Whether something fits into memory, and how many of it do.
#pragma once

#include <cstdint>
#include <functional>

namespace meshwright {

struct MemoryFit {
  bool fits = false;
  std::int64_t bytes = 0;  // what it needs
};

struct LargestBatch {
  int micro_batch = 0;  // 0: not even the smallest fits
  std::int64_t peak_memory_bytes = 0;
};

// The largest count from 1 on that fits into `limit` bytes; 0: none. What it needs grows with the
// count, nearly in a straight line.
LargestBatch largest_that_fits(std::int64_t limit, const std::function<MemoryFit(int)>& fit);

}  // namespace meshwright
