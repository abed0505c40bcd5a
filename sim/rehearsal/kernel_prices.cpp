#include "sim/rehearsal/kernel_prices.h"

#include <algorithm>
#include <optional>

namespace meshwright::sim {

namespace {

// Every launch is in the recording, so no factor stands for those that a framework adds.
Cluster without_launch_factor(Cluster cluster) {
  cluster.machine.gpu.kernels.launches = {1, 1, 1};
  return cluster;
}

bool in_16_bits(const Kernel& kernel) {
  return kernel.precision == Precision::bf16 || kernel.precision == Precision::fp16;
}

}  // namespace

KernelPrices::KernelPrices(const Cluster& cluster)
    : gpu_(cluster.device()),
      cost_(without_launch_factor(cluster), StepSettings{}),
      measured_(gpu_) {}

Seconds KernelPrices::of(const Kernel& kernel) const {
  std::optional<double> rate;
  if (in_16_bits(kernel) && kernel.flops > 0)
    rate = kernel.kind == Kernel::Kind::attention
               ? measured_.attention_rate(kernel)
               : measured_.product_rate(kernel, gpu_, *kernel.precision);
  if (!rate) return cost_.time(kernel);
  const Seconds arithmetic{kernel.flops / (*rate * gpu_.sustained_clock_share) +
                           gpu_.kernel_latency_s};
  return std::max(arithmetic, cost_.time(Kernel{.bytes = kernel.bytes}));
}

}  // namespace meshwright::sim
