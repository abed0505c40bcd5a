// How long a recorded kernel takes on a device: by the rates that its kind of GPU was measured to
// reach, and where none are known as in a simulated step (sim/cost).
#pragma once

#include "hwprofiles/measured_rates.h"
#include "sim/cost/cost.h"

namespace meshwright::sim {

class KernelPrices {
 public:
  explicit KernelPrices(const Cluster& cluster);

  Seconds of(const Kernel& kernel) const;

 private:
  double product_rate(const Kernel& product) const;   // FLOP/s
  double attention_rate(const Kernel& kernel) const;  // FLOP/s

  Gpu gpu_;
  CostModel cost_;
  const MeasuredRates* measured_;  // null: none
};

}  // namespace meshwright::sim
