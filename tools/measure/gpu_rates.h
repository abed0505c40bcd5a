// Measures the rates of one GPU as the simulator's cost model (sim/cost) asks for them. Each value
// is the one with which the model predicts the measured operation correctly.
#pragma once

#include <string>
#include <vector>

#include "hwprofiles/gpu.h"
#include "models/program/graph/op_table.h"
#include "tools/measure/gpu_bench.h"

namespace meshwright::tools {

// Measures the rates that `gpu` lacks and fills them in. Call kernel_latency(), memory() and
// products() first, in this order, because the others use their results. The GPU's name and sizes
// must be known before. Peaks and constants may be known. A value that cannot be measured in time
// stays unchanged.
class GpuRates {
 public:
  // `measured` gets the names of what was measured, for the profile.
  GpuRates(GpuBench& bench, Gpu& gpu, std::vector<std::string>& measured)
      : bench_(bench), gpu_(gpu), measured_(measured) {}

  void kernel_latency();
  void memory(Dtype storage);
  // Measures the efficiency curve of matmuls. `precision` has 16 bits.
  void products(Precision precision);
  // Measures matmuls in another precision. `share` becomes the share of the efficiency curve of
  // products() which they reach. If their peak is unknown, it is derived from the measurement
  // instead, and `share` is 1.
  void other_products(Precision precision, double& share);
  void fp8_products();
  void attention(Precision precision);
  void score_products(Precision precision);
  void traffic(Dtype storage);
  void optimizer(Dtype storage);

 private:
  // Sums up some operations: their time in seconds, without their kernels' latency, and the FLOPs
  // and bytes that the simulator counts for them.
  struct Together {
    double seconds = 0, flops = 0, bytes = 0;
    std::vector<Kernel> kernels;
  };
  Together run(const std::vector<Probe>& probes);
  // Returns the first of the descending `sizes` for which there is time, the last one if each is
  // too slow, or 0 if no time is left at all. seconds(size) is the expected time of one run.
  template <typename Seconds>
  std::int64_t affordable(std::initializer_list<std::int64_t> sizes, const Seconds& seconds) const {
    for (const std::int64_t size : sizes)
      if (bench_.affords(seconds(size))) return size;
    return bench_.affords(0) ? *(sizes.end() - 1) : 0;
  }
  double traffic_of(const std::vector<Probe>& probes);
  // Describes a linear layer, forward and backward: its three matmuls, each of m x n x k.
  struct Rate {
    double flops = 0, per_s = 0;  // FLOPs of one matmul; FLOP/s without the shape's losses
  };
  Rate linear_rate(std::int64_t m, std::int64_t n, std::int64_t k, Precision precision);
  void depth_start(Precision precision);

  GpuBench& bench_;
  Gpu& gpu_;
  std::vector<std::string>& measured_;
  double product_flops_per_s_ = 0;  // of the latest matmuls, to estimate later ones
};

}  // namespace meshwright::tools
