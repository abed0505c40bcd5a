// What one GPU reaches, as the simulator's cost model (sim/cost) asks for it: each figure is what
// makes its prediction of the measured operation right.
#pragma once

#include <string>
#include <vector>

#include "hwprofiles/gpu.h"
#include "models/program/graph/op_table.h"
#include "tools/measure/gpu_bench.h"

namespace meshwright {

// Fills in what `gpu` lacks, in this order. Its name, sizes and, where known, peaks and constants
// are there before; what could not be measured stays as it is.
class GpuRates {
 public:
  // `measured`: names of what was measured, for the profile.
  GpuRates(GpuBench& bench, Gpu& gpu, std::vector<std::string>& measured)
      : bench_(bench), gpu_(gpu), measured_(measured) {}

  void kernel_latency();
  void memory(Dtype storage);
  // The curve of products; `precision` is of 16 bits.
  void products(Precision precision);
  // What products in another precision reach of it, and their peak where it is not known.
  void other_products(Precision precision, double& share);
  void fp8_products();
  void attention(Precision precision);
  void score_products(Precision precision);
  void traffic(Dtype storage);
  void optimizer(Dtype storage);

 private:
  // Seconds of the operations beside their kernels' latency, and what the simulator sees of them.
  struct Together {
    double seconds = 0, flops = 0, bytes = 0;
    std::vector<Kernel> kernels;
  };
  Together run(const std::vector<Probe>& probes);
  // The first of the sizes, falling, for which there is time; 0 where there is none left at all.
  // `seconds(size)`: what one run is expected to take.
  template <typename Seconds>
  std::int64_t affordable(std::initializer_list<std::int64_t> sizes, const Seconds& seconds) const {
    for (const std::int64_t size : sizes)
      if (bench_.affords(seconds(size))) return size;
    return bench_.affords(0) ? *(sizes.end() - 1) : 0;
  }
  double traffic_of(const std::vector<Probe>& probes);
  // Of the arithmetic of a linear layer, forward and backward: FLOPs per second of its three
  // products, each of m x n x k.
  struct Rate {
    double flops = 0, per_s = 0;  // of one product; what they would reach were it not for the shape
  };
  Rate linear_rate(std::int64_t m, std::int64_t n, std::int64_t k, Precision precision);
  void depth_start(Precision precision);

  GpuBench& bench_;
  Gpu& gpu_;
  std::vector<std::string>& measured_;
  double product_flops_per_s_ = 0;  // of the latest products, for what a larger one would take
};

}  // namespace meshwright
