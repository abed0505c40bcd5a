#include "sim/validate/tunable_constants.h"

#include <algorithm>

namespace meshwright::sim {

namespace {

// Prefixes of the names of GPUs, or of machines, to which a constant belongs. The empty list `all`
// means every machine.
const std::vector<std::string> v100 = {"V100"}, a100 = {"A100"}, h100 = {"H100", "H200"},
                               blackwell = {"B200", "B300", "GB200", "GB300"}, all;

// Shares of the peak of an H100. The largest bf16 matmuls of cuBLAS reach about 720 of 989 TFLOP/s
// under its power limit. The matrix instructions of the previous generation, which the first flash
// kernels use, reach 63 % of the peak (Luo et al. 2024, Benchmarking and Dissecting the Nvidia
// Hopper GPU Architecture, table 8).
constexpr double h100_gemm = 0.73, h100_mma = 0.63;

bool always(const Plan&) { return true; }
bool fp32(const Plan& plan) { return plan.training.precision == Precision::fp32; }
bool tf32(const Plan& plan) { return plan.training.precision == Precision::tf32; }
bool wide(const Plan& plan) { return fp32(plan) || tf32(plan); }
bool unfused(const Plan& plan) { return plan.training.attention == AttentionKernel::unfused; }
bool flash(const Plan& plan) { return plan.training.attention == AttentionKernel::flash; }
bool flash2(const Plan& plan) { return plan.training.attention == AttentionKernel::flash2; }
bool cudnn(const Plan& plan) { return plan.training.attention == AttentionKernel::cudnn; }
bool in_one_kernel(const Plan& plan) { return !unfused(plan); }
bool fp8(const Plan& plan) { return plan.training.precision == Precision::fp8; }
bool none(const Plan& plan) { return plan.training.compiler == CompilerLevel::none; }
bool fused(const Plan& plan) { return plan.training.compiler == CompilerLevel::fused; }
bool full(const Plan& plan) { return plan.training.compiler == CompilerLevel::full; }
bool overlaps(const Plan& plan) {
  const Parallelism& p = plan.parallelism;
  return p.overlap_gradients || p.overlap_parameters || p.overlap_tensor;
}
bool ranks(const Plan& plan) { return plan.degrees().ranks() > 1; }
bool layers(const Plan& plan) {
  const Parallelism& p = plan.parallelism;
  return p.zero_stage == 3 || p.tensor > 1 || p.context > 1 || p.expert > 1;
}

#define PLACE(field) [](Machine& m) -> double& { return m.field; }

// Adds the constants of collectives inside a host with NVSwitch, for each generation of GPUs.
// Latencies start near those that NCCL estimates with (github NVIDIA/nccl src/graph/tuning.cc). In
// these estimates LL has a quarter of the bandwidth, and NVLS begins 25 us later than a ring.
void add_switches(std::vector<TunableConstant>& rows) {
  struct Generation {
    std::vector<std::string> kinds;
    double bytes_per_s, launch_s;
  };
  for (const auto& [kinds, paper, launch] :
       {Generation{a100, 300e9, 1e-5}, Generation{h100, 450e9, 6e-6},
        Generation{blackwell, 900e9, 9e-6}}) {
    const TunableConstant of_switch[] = {
        {"host_latency_s", kinds, PLACE(host_latency.latency_s), launch, 0.5, 1e-6, 2e-4, ranks},
        {"host_step_latency_s", kinds, PLACE(host_latency.step_latency_s), 7e-7, 0.5, 1e-7, 1e-5,
         ranks},
        {"nvlink_efficiency", kinds, PLACE(nvlink.efficiency), 0.8, 0.1, 0.5, 0.95, ranks},
        {"own_share", kinds, PLACE(nvlink.own_share), 0.4, 0.5, 0.02, 1.5, ranks},
        {"ll_bandwidth", kinds, PLACE(nvlink.ll_bandwidth_bytes_per_s), paper / 4, 0.3, paper / 20,
         paper * 0.6, ranks},
        {"ll128_share", kinds, PLACE(nvlink.ll128_share), 0.7, 0.2, 0.3, 0.95, ranks},
        {"ll128_latency_s", kinds, PLACE(nvlink.ll128_latency_s), 6e-6, 0.7, 1e-6, 4e-5, ranks},
        {"simple_latency_s", kinds, PLACE(nvlink.simple_latency_s), 2e-5, 0.7, 1e-6, 8e-5, ranks},
        {"simple_fill_bytes", kinds, PLACE(nvlink.simple_fill_bytes), 2e6, 0.7, 2e5, 3e7, ranks},
        {"exchange_share", kinds, PLACE(nvlink.exchange_share), 0.85, 0.15, 0.4, 1.1, ranks},
        {"exchange_latency_s", kinds, PLACE(nvlink.exchange_latency_s), 6e-6, 0.5, 1e-6, 4e-5,
         ranks},
    };
    rows.insert(rows.end(), std::begin(of_switch), std::end(of_switch));
  }
  for (const auto& kinds : {h100, blackwell}) {
    const TunableConstant of_nvls[] = {
        {"nvls_efficiency", kinds, PLACE(nvlink.nvls_efficiency), 1, 0.1, 0.7, 1.2, ranks},
        {"nvls_latency_s", kinds, PLACE(nvlink.nvls_latency_s), 2.5e-5, 0.4, 1e-5, 1e-4, ranks},
        {"nvls_ramp_bytes", kinds, PLACE(nvlink.nvls_ramp_bytes), 3e7, 0.7, 1e6, 4e8, ranks}};
    rows.insert(rows.end(), std::begin(of_nvls), std::end(of_nvls));
  }
}

std::vector<TunableConstant> make_table() {
  std::vector<TunableConstant> rows;
  const auto of_gpus = [&](TunableConstant row) {
    for (const auto& kinds : {v100, a100, h100}) {
      row.kinds = kinds;
      rows.push_back(row);
    }
  };
  // The power limits of these three modules are 300, 350 and 450 W, in this order.
  for (const auto& [kind, start] : {std::pair("V100-SXM2", 0.9), std::pair("V100-SXM3", 0.95),
                                    std::pair("V100-SXM3-32GB-H", 1.0)})
    rows.push_back(
        {"sustained_clock", {kind}, PLACE(gpu.sustained_clock_share), start, 0.05, 0.7, 1, always});
  // The power limit of this module is 500 W. Other H100 modules have 700 W.
  rows.push_back({"sustained_clock",
                  {"H100-96GB"},
                  PLACE(gpu.sustained_clock_share),
                  0.88,
                  0.1,
                  0.6,
                  1,
                  always});
  for (const auto& [kinds, start] :
       {std::pair(v100, 0.88), std::pair(a100, 0.8), std::pair(h100, h100_gemm)})
    rows.push_back(
        {"gemm", kinds, PLACE(gpu.gemm.points[0].fraction), start, 0.15, 0.3, 1, always});
  of_gpus(
      {"memory_bound", {}, PLACE(gpu.memory_bound.points[0].fraction), 0.8, 0.1, 0.4, 1, always});
  const TunableConstant of_cube_mesh[] = {
      {"host_latency_s", v100, PLACE(host_latency.latency_s), 2e-5, 0.5, 1e-6, 2e-4, ranks},
      {"host_step_latency_s", v100, PLACE(host_latency.step_latency_s), 2e-6, 0.7, 1e-7, 1e-4,
       ranks},
      {"simple_latency_s", v100, PLACE(nvlink.simple_latency_s), 1e-5, 0.7, 1e-6, 5e-5, ranks}};
  rows.insert(rows.end(), std::begin(of_cube_mesh), std::end(of_cube_mesh));
  add_switches(rows);
  of_gpus({"straggling", {}, PLACE(gpu.kernels.straggling), 0.005, 1, 1e-4, 0.05, ranks});
  of_gpus(
      {"layer_straggling", {}, PLACE(gpu.kernels.layer_straggling), 0.01, 1, 1e-4, 0.05, layers});
  // The network efficiency of hosts with V100 starts lower: two p3dn.24xlarge reach 10 of 12.5
  // GB/s, and 8 to 32 of them reach 6 to 8 GB/s (NVIDIA/nccl#235).
  const std::pair<std::vector<std::string>, double> networks[] = {{{"dgx-1", "dgx-2", "v100"}, 0.7},
                                                                  {{"dgx-a100"}, 0.85},
                                                                  {{"dgx-h"}, 0.85},
                                                                  {{"p4"}, 0.85},
                                                                  {{"p5"}, 0.85},
                                                                  {{"p6"}, 0.9}};
  for (const auto& [machines, start] : networks)
    rows.push_back(
        {"network_efficiency", machines, PLACE(network.efficiency), start, 0.15, 0.3, 0.97, ranks});
  for (const char* machines : {"p4", "p5", "p6"}) {
    const TunableConstant of_efa[] = {{"network_step_s",
                                       {machines},
                                       PLACE(network_latency.step_latency_s),
                                       3e-5,
                                       0.7,
                                       5e-6,
                                       2e-4,
                                       ranks},
                                      {"network_simple_step_s",
                                       {machines},
                                       PLACE(network.simple_step_latency_s),
                                       4e-5,
                                       0.7,
                                       5e-6,
                                       2e-4,
                                       ranks}};
    rows.insert(rows.end(), std::begin(of_efa), std::end(of_efa));
  }
  for (const auto& [kinds, share] : {std::pair(a100, 1.0), std::pair(h100, h100_mma)}) {
    rows.push_back({"flash_forward", kinds, PLACE(gpu.kernels.flash_forward), 0.4 * share, 0.4,
                    0.05, 0.9, flash});
    rows.push_back({"flash_backward", kinds, PLACE(gpu.kernels.flash_backward), 0.3 * share, 0.4,
                    0.05, 0.9, flash});
  }
  // On Hopper, FlashAttention-2 reaches 35 to 40 % of the peak forward and 30 % backward.
  // FlashAttention-3 reaches 66 and 55 % for long sequences (Shah et al. 2024, FlashAttention-3,
  // figures 5 and 6).
  rows.push_back(
      {"flash2_forward", h100, PLACE(gpu.kernels.flash2_forward), 0.42, 0.1, 0.2, 0.9, flash2});
  rows.push_back(
      {"flash2_backward", h100, PLACE(gpu.kernels.flash2_backward), 0.34, 0.1, 0.1, 0.9, flash2});
  rows.push_back(
      {"cudnn_forward", h100, PLACE(gpu.kernels.cudnn_forward), 0.58, 0.1, 0.3, 0.9, cudnn});
  rows.push_back(
      {"cudnn_backward", h100, PLACE(gpu.kernels.cudnn_backward), 0.5, 0.2, 0.2, 0.9, cudnn});
  // The starts are fitted to forward times of TensorRT-LLM on A100 and of cuDNN on H100, for 2k to
  // 16k tokens.
  for (const auto& [kinds, start] : {std::pair(a100, 640.), std::pair(h100, 1450.)})
    rows.push_back({"attention_ramp", kinds, PLACE(gpu.kernels.attention_ramp), start, 0.4, 50,
                    5000, in_one_kernel});
  const TunableConstant others[] = {
      // On an H100, matmuls of 8,192 x 8,192 x 8,192 reach 1,243 TFLOP/s in fp8, with the
      // conversion of their input, and 783 in bf16. These are 0.63 and 0.79 of the peaks.
      {"fp8_share", h100, PLACE(gpu.kernels.fp8_share), 0.85, 0.1, 0.5, 1.2, fp8},
      {"fp32_share", v100, PLACE(gpu.kernels.fp32_share), 1, 0.1, 0.5, 1.15, fp32},
      {"tf32_share", a100, PLACE(gpu.kernels.tf32_share), 1, 0.2, 0.3, 1.2, tf32},
      {"batched_share", all, PLACE(gpu.kernels.batched_share), 0.6, 0.5, 0.1, 1.2, unfused},
      {"misaligned_share", all, PLACE(gpu.kernels.misaligned_share), 0.7, 0.5, 0.02, 1, always},
      {"misaligned_batched_share", all, PLACE(gpu.kernels.misaligned_batched_share), 0.3, 1, 0.02,
       1, unfused},
      {"depth_start", all, PLACE(gpu.kernels.depth_start), 64, 0.7, 4, 1000, always},
      {"narrow_head", all, PLACE(gpu.kernels.narrow_head), 0.9, 0.3, 0.3, 1.2, flash},
      {"score_traffic", all, PLACE(gpu.kernels.score_traffic), 1.3, 0.3, 0.3, 4, unfused},
      {"loss_traffic", all, PLACE(gpu.kernels.loss_traffic), 1, 0.3, 0.3, 4, always},
      // tanhf takes about 25 of the 60 instructions at the start, and the rest of the formula 10.
      // The others are conversions, addresses and loads, and no kernel issues an instruction in
      // every cycle.
      {"gelu_instructions", all, PLACE(gpu.kernels.gelu_instructions), 60, 0.3, 20, 150, always},
      {"fp32_traffic", all, PLACE(gpu.kernels.fp32_traffic), 0.8, 0.3, 0.3, 1.5, wide},
      {"traffic none", all, PLACE(gpu.kernels.traffic[0]), 1.4, 0.3, 0.3, 4, none},
      {"traffic fused", all, PLACE(gpu.kernels.traffic[1]), 1.1, 0.3, 0.3, 4, fused},
      // The start is that of the kernels of OneFlow, because no other measurements of this level
      // are published.
      {"traffic full", h100, PLACE(gpu.kernels.traffic[2]), 1, 0.3, 0.3, 2.5, full},
      {"traffic full", v100, PLACE(gpu.kernels.traffic[2]), 1, 0.5, 0.3, 4, full},
      {"host_launch_us", all, PLACE(host.host_launch_us), 8, 0.4, 4, 50, none},
      {"launches none", all, PLACE(gpu.kernels.launches[0]), 1.2, 0.3, 0.5, 4, none},
      {"launches fused", all, PLACE(gpu.kernels.launches[1]), 1.5, 0.3, 0.5, 6, fused},
      {"launches full", all, PLACE(gpu.kernels.launches[2]), 1, 0.3, 0.5, 4, full},
      {"optimizer_traffic none", all, PLACE(gpu.kernels.optimizer_traffic[0]), 1, 0.3, 0.2, 4,
       none},
      {"optimizer_traffic fused", all, PLACE(gpu.kernels.optimizer_traffic[1]), 1, 0.2, 0.5, 4,
       fused},
      {"optimizer_traffic full", all, PLACE(gpu.kernels.optimizer_traffic[2]), 1, 0.2, 0.5, 4,
       full},
      {"kernel_latency_s", all, PLACE(gpu.kernel_latency_s), 3e-6, 0.3, 1e-6, 1e-5, always},
      {"exposed_launch", all, PLACE(gpu.kernels.exposed_launch), 0.2, 0.7, 0.01, 1, always},
      // The start is about the share of the multiprocessors that NCCL occupies: 16 to 24 of an
      // A100's 108.
      {"overlap_slowdown", all, PLACE(gpu.kernels.overlap_slowdown), 0.2, 0.5, 0.01, 1, overlaps},
  };
  rows.insert(rows.end(), std::begin(others), std::end(others));
  return rows;
}

#undef PLACE

}  // namespace

const std::vector<TunableConstant>& tunable_constants() {
  static const std::vector<TunableConstant> rows = make_table();
  return rows;
}

bool concerns(const TunableConstant& constant, const Machine& machine) {
  if (constant.kinds.empty()) return true;
  return std::ranges::any_of(constant.kinds, [&](const std::string& kind) {
    return machine.gpu.name.starts_with(kind) || machine.name.starts_with(kind);
  });
}

// Returns whether the constant is one of links. Times of collectives depend on these constants
// only, because collectives are measured without other work.
bool is_of_links(const TunableConstant& constant) {
  constexpr std::string_view beginnings[] = {
      "host_latency", "host_step", "network", "simple", "nvls", "nvlink", "own", "ll", "exchange"};
  return std::ranges::any_of(
      beginnings, [&](std::string_view begin) { return constant.name.starts_with(begin); });
}

}  // namespace meshwright::sim
