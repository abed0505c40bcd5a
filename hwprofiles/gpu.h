// Describes the capabilities of one device: its nominal peaks, and the shares of them that good
// kernels reach.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/core/dtype.h"
#include "models/core/units.h"

namespace meshwright::hwprofiles {

// A fraction of the peak as a function of the size of the work: sorted points {x, fraction}, linear
// in log x between them, constant beyond the ends. One point is a constant, and without points the
// fraction is 1.
struct EfficiencyCurve {
  struct Point {
    double x = 1;
    double fraction = 1;
  };
  std::vector<Point> points;
  double at(double x) const;
};

enum class DeviceKind : std::uint8_t { gpu, cpu };

// Constants of the kernels of one kind of GPU, in addition to the curves of Gpu. tools/fit derives
// most of them from published measurements. The defaults are for GPUs without any.
struct KernelConstants {
  // Factors on the share of the peak that matrix multiplications (matmuls) reach. The first three
  // are for matmuls in these types instead of 16 bits. An fp8 matmul has half as long to load its
  // operands, and runs at fewer clock cycles under the same power limit.
  double fp32_share = 1, tf32_share = 1, fp8_share = 1;
  double fp4_share = 1;      // in nvfp4, in addition to fp8_share
  double batched_share = 1;  // for attention's matmuls, batched over heads
  // Factor for matmuls with operands whose rows do not begin at multiples of 16 bytes.
  double misaligned_share = 0.7;
  double misaligned_batched_share = 0.7;  // for such operands in batched matmuls
  // Time that a tile of a matmul takes to start and end, as the number of elements along the summed
  // dimension k that take the same time.
  double depth_start = 0;
  // Shares of the peak that fused attention reaches, forward and backward, with heads of 128, for
  // the first and the second generation of kernels (25-40 % and 50-73 % on A100: Dao 2023,
  // FlashAttention-2).
  double flash_forward = 0.4, flash_backward = 0.4;
  double flash2_forward = 0.6, flash2_backward = 0.6;
  // The same shares for kernels that only newer GPUs have. 0 means that this GPU does not have the
  // kernel.
  double flash3_forward = 0, flash3_backward = 0;
  double cudnn_forward = 0, cudnn_backward = 0;
  // Number of keys at which attention reaches half of its share: share(n) = share * n / (n +
  // attention_ramp). It models a kernel's start and end and half-masked tiles.
  double attention_ramp = 0;
  double narrow_head = 1;  // factor for heads of 64 and narrower
  // Factors on the bytes that memory-bound kernels move, because frameworks run more kernels than
  // the Program has. `score_traffic` is for attention's score matrices, `loss_traffic` for the
  // loss. `traffic` is for all other kernels and `optimizer_traffic` for the optimizer, by compiler
  // level (none, fused, full). `launches` is a factor on the number of kernels.
  double score_traffic = 1, loss_traffic = 1;
  // Instructions of one GELU, with its conversions and loads. A kernel with many of them is bound
  // by instructions on GPUs with much bandwidth for their arithmetic (A100). 0 means that it is
  // bound by its bytes only.
  double gelu_instructions = 0;
  // Factor on score_traffic, loss_traffic and traffic in fp32, tf32 and fp64, where nothing is
  // cast.
  double fp32_traffic = 1;
  std::array<double, 3> traffic = {1, 1, 1};
  std::array<double, 3> optimizer_traffic = {1, 1, 1};
  std::array<double, 3> launches = {1, 1, 1};
  // Share of the launch time for which the device waits although the host runs ahead, because the
  // host stops for allocations, for copies and for its interpreter.
  double exposed_launch = 0;
  // Standard deviation of the compute time of equal GPUs, as a share of it. `straggling` is for the
  // whole step, whose end all ranks wait for. `layer_straggling` is for each layer, where a group
  // of ranks waits for its slowest.
  double straggling = 0, layer_straggling = 0;
  // Relative increase of kernel time while collectives keep NVLink busy, because collectives use
  // multiprocessors and memory bandwidth of the same GPU.
  double overlap_slowdown = 0;

  bool operator==(const KernelConstants&) const = default;
};

// Scaling of a kernel over the threads of a CPU while other cores are equally busy: its rate as a
// share of `threads` times the rate of one thread at the same size. Sizes are those of the curves
// of Gpu.
struct ThreadScaling {
  int threads = 2;
  EfficiencyCurve gemm, memory_bound, attention;
};

// Returns the name that a profile uses for the peak of a precision.
constexpr std::string_view peak_name(Precision precision) {
  return precision == Precision::nvfp4 ? "fp4" : name_of(precision);
}

// One GPU, or one process of a CPU computer. In a machine's profile it is the whole CPU computer,
// but its peaks are those of one core. Efficiencies are what a good kernel reaches. sim/cost models
// the losses of small or misaligned shapes.
struct Gpu {
  std::string name;
  DeviceKind kind = DeviceKind::gpu;
  double memory_bytes = 0;
  double memory_bandwidth_bytes_per_s = 0;
  // Dense, indexed by Precision. 0: not supported.
  std::array<double, precision_count> peak_flop_per_s{};
  int sm_count = 0;
  double clock_hz = 0;
  double l2_bytes = 0;
  double tdp_w = 0;
  double compute_capability = 0;     // NVIDIA's, such as 9.0; 0: not known
  std::string measured;              // the file of its measured rates (measured_rates.h), if any
  double sustained_clock_share = 1;  // of the clock, under full load and the power limit
  // Whether 8-bit matmuls need both operands contiguous along the summed dimension (Ada, Hopper,
  // Blackwell's workstation GPUs). Other operands must then be stored transposed.
  bool transposes_8_bits = false;
  EfficiencyCurve gemm;          // share of the dense peak against the FLOPs of one matmul
  EfficiencyCurve memory_bound;  // share of the memory bandwidth against the bytes of one kernel
  // Share of the peak that fused attention reaches against the FLOPs of one head of one sequence.
  // Without points, the shares of KernelConstants count (flash_forward, ...).
  EfficiencyCurve attention;
  EfficiencyCurve attention_backward;         // for the backward pass; no points: `attention`
  std::vector<ThreadScaling> thread_scaling;  // by ascending threads; empty: threads lose nothing
  double kernel_latency_s = 0;                // device time of a kernel that does nothing
  KernelConstants kernels;

  // Returns the nominal peak in a precision, or 0 if the device does not support it. Profiles have
  // no rate of fp64. A CPU has half the rate of fp32, because its vector registers hold half as
  // many numbers of 64 bits.
  FlopPerSecond peak(Precision precision) const {
    if (precision == Precision::fp64 && kind == DeviceKind::cpu)
      return {peak(Precision::fp32).value / 2};
    return {peak_flop_per_s[static_cast<std::size_t>(precision)]};
  }
  bool supports(Precision precision) const { return peak(precision).value > 0; }
};

}  // namespace meshwright::hwprofiles
