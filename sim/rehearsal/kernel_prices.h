// Predicts how long a recorded kernel takes on a device: by the rates that were measured on its
// kind of GPU or, if none are known, as in a simulated step (sim/cost).
#pragma once

#include <map>

#include "sim/cost/cost.h"
#include "sim/cost/measured.h"

namespace meshwright::sim {

class KernelPrices {
 public:
  explicit KernelPrices(const Cluster& cluster);

  // Returns the time of a kernel. `recorded` says which kernel of fused attention ran. Other
  // kernels ignore it.
  Seconds of(const Kernel& kernel, AttentionKernel recorded = AttentionKernel::flash2) const;

 private:
  AttentionKernel available(AttentionKernel attention) const;

  Gpu gpu_;
  std::map<AttentionKernel, CostModel> cost_;
  MeasuredKernels measured_;
};

}  // namespace meshwright::sim
