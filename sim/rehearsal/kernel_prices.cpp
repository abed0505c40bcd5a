#include "sim/rehearsal/kernel_prices.h"

#include <algorithm>
#include <cmath>

#include "sim/cost/gemm.h"

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

// Returns how far apart two sizes are, as the square of the logarithm of their ratio.
double apart(double a, double b) {
  const double ratio = std::log(a / b);
  return ratio * ratio;
}

double apart(const Kernel& product, const MeasuredProduct& measured) {
  return apart(static_cast<double>(product.m), static_cast<double>(measured.m)) +
         apart(static_cast<double>(product.n), static_cast<double>(measured.n)) +
         apart(static_cast<double>(product.k), static_cast<double>(measured.k));
}

}  // namespace

KernelPrices::KernelPrices(const Cluster& cluster)
    : gpu_(cluster.device()),
      cost_(without_launch_factor(cluster), StepSettings{}),
      measured_(measured_rates(gpu_)) {}

Seconds KernelPrices::of(const Kernel& kernel) const {
  const bool product = kernel.kind == Kernel::Kind::gemm;
  const bool attention = kernel.kind == Kernel::Kind::attention;
  const bool known = measured_ != nullptr && in_16_bits(kernel) && kernel.flops > 0 &&
                     (product || (attention && !measured_->attention.empty()));
  if (!known) return cost_.time(kernel);
  const double rate = product ? product_rate(kernel) : attention_rate(kernel);
  const Seconds arithmetic{kernel.flops / (rate * gpu_.sustained_clock_share) +
                           gpu_.kernel_latency_s};
  return std::max(arithmetic, cost_.time(Kernel{.bytes = kernel.bytes}));
}

// The nearest measured shape, corrected by what the two shapes allow.
double KernelPrices::product_rate(const Kernel& product) const {
  const MeasuredProduct& near = *std::ranges::min_element(
      measured_->products, {}, [&](const MeasuredProduct& each) { return apart(product, each); });
  const Kernel like{.kind = Kernel::Kind::gemm, .m = near.m, .n = near.n, .k = near.k};
  const Precision precision = *product.precision;
  return near.flop_per_s * shape_efficiency(product, gpu_, precision) /
         shape_efficiency(like, gpu_, precision);
}

double KernelPrices::attention_rate(const Kernel& kernel) const {
  const auto keys = static_cast<double>(kernel.n);
  const MeasuredAttention& near = *std::ranges::min_element(
      measured_->attention, {},
      [&](const MeasuredAttention& each) { return apart(each.keys, keys); });
  return near.flop_per_s * (kernel.k <= 64 ? measured_->narrow_share : 1) *
         (kernel.backward ? measured_->backward_share : 1);
}

}  // namespace meshwright::sim
