// How long a recorded kernel takes on a device: by the rates that its kind of GPU was measured to
// reach, and where none are known as in a simulated step (sim/cost).
#pragma once

#include "sim/cost/cost.h"
#include "sim/cost/measured.h"

namespace meshwright::sim {

class KernelPrices {
 public:
  explicit KernelPrices(const Cluster& cluster);

  Seconds of(const Kernel& kernel) const;

 private:
  Gpu gpu_;
  CostModel cost_;
  MeasuredKernels measured_;
};

}  // namespace meshwright::sim
