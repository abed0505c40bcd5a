#include "sim/rehearsal/kernel_prices.h"

#include <algorithm>
#include <optional>

namespace meshwright::sim {

namespace {

// Returns the cluster without the factor for launches that a framework adds, because the recording
// has every launch.
Cluster without_launch_factor(Cluster cluster) {
  cluster.machine.gpu.kernels.launches = {1, 1, 1};
  return cluster;
}

bool in_16_bits(const Kernel& kernel) {
  return kernel.precision == Precision::bf16 || kernel.precision == Precision::fp16;
}

// Returns the cost of kernels by each kind of fused attention.
std::map<AttentionKernel, CostModel> costs_on(const Cluster& cluster) {
  std::map<AttentionKernel, CostModel> costs;
  for (const AttentionKernel kind :
       {AttentionKernel::flash2, AttentionKernel::flash3, AttentionKernel::cudnn}) {
    StepSettings settings;
    settings.attention = kind;
    costs.emplace(kind, CostModel(without_launch_factor(cluster), settings));
  }
  return costs;
}

}  // namespace

KernelPrices::KernelPrices(const Cluster& cluster)
    : gpu_(cluster.device()), cost_(costs_on(cluster)), measured_(gpu_) {}

// Returns the kernel of fused attention that the device can run. A script that was recorded on a
// newer GPU is assumed to use FlashAttention-2 on a GPU that lacks the newer kernel.
AttentionKernel KernelPrices::available(AttentionKernel attention) const {
  const bool there = attention == AttentionKernel::cudnn    ? gpu_.kernels.cudnn_forward > 0
                     : attention == AttentionKernel::flash3 ? gpu_.kernels.flash3_forward > 0
                                                            : false;
  return there ? attention : AttentionKernel::flash2;
}

Seconds KernelPrices::of(const Kernel& kernel, AttentionKernel recorded) const {
  const AttentionKernel attention = available(recorded);
  const CostModel& cost = cost_.at(attention);
  std::optional<double> rate;
  if (kernel.kind == Kernel::Kind::gemm && kernel.precision)
    rate = measured_.product_rate(kernel, gpu_, *kernel.precision);
  else if (kernel.kind == Kernel::Kind::attention && in_16_bits(kernel) && kernel.flops > 0 &&
           attention == AttentionKernel::flash2)
    rate = measured_.attention_rate(kernel);
  if (!rate) return cost.time(kernel);
  const Seconds arithmetic{kernel.flops / (*rate * gpu_.sustained_clock_share) +
                           gpu_.kernel_latency_s};
  return std::max(arithmetic, cost.time(Kernel{.bytes = kernel.bytes}));
}

}  // namespace meshwright::sim
