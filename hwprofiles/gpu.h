// What one device can do: peaks on paper, and the shares of them that good kernels reach.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "models/core/dtype.h"
#include "models/core/units.h"

namespace meshwright {

// A fraction of the peak as a function of the size of the work: sorted points {x, fraction}, linear
// in log x between them, constant beyond the ends. One point is a constant.
struct EfficiencyCurve {
  struct Point {
    double x = 1;
    double fraction = 1;
  };
  std::vector<Point> points;
  double at(double x) const;
};

enum class DeviceKind : std::uint8_t { gpu, cpu };

// One GPU, or one process of a CPU computer. Efficiencies are what a good kernel reaches; what
// small or misaligned shapes lose is the business of sim/cost.
struct Gpu {
  std::string name;
  DeviceKind kind = DeviceKind::gpu;
  double memory_bytes = 0;
  double memory_bandwidth_bytes_per_s = 0;
  std::array<double, 5> peak_flop_per_s{};  // dense, indexed by Precision; 0: not supported
  int sm_count = 0;
  double clock_hz = 0;
  double l2_bytes = 0;
  double tdp_w = 0;
  EfficiencyCurve gemm;          // share of the dense peak against the FLOPs of one matrix product
  EfficiencyCurve memory_bound;  // share of the memory bandwidth against the bytes of one kernel
  EfficiencyCurve attention;     // share of the peak against the FLOPs of one head of one sequence,
                                 // for fused attention; no points: what sim/cost says of its kind
  double kernel_latency_s = 0;   // device time of a kernel that does nothing

  FlopPerSecond peak(Precision precision) const {
    return {peak_flop_per_s[static_cast<std::size_t>(precision)]};
  }
  bool supports(Precision precision) const { return peak(precision).value > 0; }
};

}  // namespace meshwright
