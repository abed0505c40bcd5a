// The largest micro-batch of a plan that fits: memory alone decides, nothing is simulated.
#pragma once

#include <cstdint>
#include <functional>

#include "hwprofiles/machine.h"
#include "models/importers/model.h"
#include "models/plan/plan.h"

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

// `plan` is legal, with its stages filled in. Everything but micro_batch and global_batch stays,
// the number of micro-batches too.
LargestBatch largest_micro_batch(const Model& model, const Plan& plan, const Cluster& cluster);

// `plan` with another micro-batch and the global batch that goes with it.
Plan with_micro_batch(Plan plan, int micro_batch);

}  // namespace meshwright
