// What one device can do: peaks on paper, and the shares of them that good kernels reach.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
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

// What kernels of one kind of GPU reach beside the curves of Gpu. tools/fit derives these from
// published measurements; the values here are for GPUs without any.
struct KernelConstants {
  // Matrix products: factors on the share of the peak.
  // Of products in these instead of 16 bits. An fp8 product has half as long to load its operands,
  // and fewer clock cycles under the same power limit.
  double fp32_share = 1, tf32_share = 1, fp8_share = 1;
  double fp4_share = 1;                   // of products in nvfp4, beside fp8_share
  double batched_share = 1;               // of attention's products, batched over heads
  double misaligned_share = 0.7;          // of rows that do not begin at multiples of 16 bytes,
  double misaligned_batched_share = 0.7;  // and so in products batched over heads
  double depth_start = 0;  // elements along k whose time a tile takes to begin and to end
  // Fused attention, forward and backward: share of the peak at heads of 128, of the first and the
  // second generation of kernels (25-40 % and 50-73 % on A100: Dao 2023, FlashAttention-2).
  double flash_forward = 0.4, flash_backward = 0.4;
  double flash2_forward = 0.6, flash2_backward = 0.6;
  // Of kernels that only newer GPUs have; 0: this one has none.
  double flash3_forward = 0, flash3_backward = 0;
  double cudnn_forward = 0, cudnn_backward = 0;
  // Sequences of so many tokens reach half of that share: begin and end of a kernel, and the tiles
  // on a causal mask's edge that are only half needed.
  double attention_ramp = 0;
  double narrow_head = 1;  // factor of heads of 64
  // Factors on what memory-bound kernels move: of attention's score matrices, of the loss; and by
  // compiler level (none, fused, full) of all others and of the optimizer. The last: on the number
  // of kernels. Frameworks run more kernels than the Program has.
  double score_traffic = 1, loss_traffic = 1;
  // Of one GELU, with its conversions and its loads. A kernel that computes many is bound by them
  // on GPUs with much bandwidth for their arithmetic (A100); 0: by its bytes alone.
  double gelu_instructions = 0;
  double fp32_traffic = 1;  // of all three in fp32 and tf32, where nothing is cast
  std::array<double, 3> traffic = {1, 1, 1};
  std::array<double, 3> optimizer_traffic = {1, 1, 1};
  std::array<double, 3> launches = {1, 1, 1};
  // Share of the launches' time that the device waits although the host runs ahead: it stops for
  // allocations, for copies, for its interpreter.
  double exposed_launch = 0;
  // Standard deviation of the compute time of equal GPUs, as a share of it: of the whole step's,
  // whose end all ranks wait for; and of each layer's, where a group of ranks waits for its
  // slowest.
  double straggling = 0, layer_straggling = 0;
  // How much longer kernels take while collectives keep NVLink busy: they run on multiprocessors
  // and through the memory of the same GPU.
  double overlap_slowdown = 0;

  bool operator==(const KernelConstants&) const = default;
};

// How well threads of a CPU share one kernel while other cores are as busy: its rate as a share of
// `threads` times what one thread reaches at the same size. Sizes are those of the curves of Gpu.
struct ThreadScaling {
  int threads = 2;
  EfficiencyCurve gemm, memory_bound, attention;
};

// What a profile calls the peak of a precision.
constexpr std::string_view peak_name(Precision precision) {
  return precision == Precision::nvfp4 ? "fp4" : name_of(precision);
}

// One GPU, or one process of a CPU computer. Efficiencies are what a good kernel reaches; what
// small or misaligned shapes lose is the business of sim/cost.
struct Gpu {
  std::string name;
  DeviceKind kind = DeviceKind::gpu;
  double memory_bytes = 0;
  double memory_bandwidth_bytes_per_s = 0;
  std::array<double, 6> peak_flop_per_s{};  // dense, indexed by Precision; 0: not supported
  int sm_count = 0;
  double clock_hz = 0;
  double l2_bytes = 0;
  double tdp_w = 0;
  double sustained_clock_share = 1;  // of the clock, that the power limit leaves to full load
  // Its products in 8 bits sum along the memory of both factors (Ada, Hopper, Blackwell's
  // workstation GPUs): what is summed along rows must be there transposed.
  bool transposes_8_bits = false;
  EfficiencyCurve gemm;          // share of the dense peak against the FLOPs of one matrix product
  EfficiencyCurve memory_bound;  // share of the memory bandwidth against the bytes of one kernel
  EfficiencyCurve attention;     // share of the peak against the FLOPs of one head of one sequence,
                                 // for fused attention; no points: what sim/cost says of its kind
  EfficiencyCurve attention_backward;         // no points: the same
  std::vector<ThreadScaling> thread_scaling;  // by number of threads; none: they share perfectly
  double kernel_latency_s = 0;                // device time of a kernel that does nothing
  KernelConstants kernels;

  FlopPerSecond peak(Precision precision) const {
    return {peak_flop_per_s[static_cast<std::size_t>(precision)]};
  }
  bool supports(Precision precision) const { return peak(precision).value > 0; }
};

}  // namespace meshwright
