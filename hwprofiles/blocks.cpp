#include "hwprofiles/blocks.h"

namespace meshwright::hwprofiles {

namespace {

constexpr bool fitted = true;

std::vector<double*> levels(std::array<double, 3>& of) { return {&of[0], &of[1], &of[2]}; }

constexpr double least_rate = 1e3, longest_s = 1e3;
// The limits of numbers whose bound is `constant`. The lower limit of `constant_or_zero` is 0.
constexpr double least_constant = 1e-6, most_constant = 1e6;

// Returns a fitted field that is optional. If the profile does not give it, it keeps its default.
BlockField constant(std::string_view key, decltype(BlockField::place) place,
                    Bound bound = Bound::constant) {
  return {key, std::move(place), bound, fitted, key};
}

}  // namespace

bool BlockField::is_set() const {
  if (const auto* number = std::get_if<double*>(&place)) return **number != 0;
  if (const auto* flag = std::get_if<bool*>(&place)) return **flag;
  if (const auto* curve = std::get_if<EfficiencyCurve*>(&place)) return !(*curve)->points.empty();
  if (const auto* number = std::get_if<std::optional<double>*>(&place))
    return (*number)->has_value();
  if (const auto* text = std::get_if<std::string*>(&place)) return !(*text)->empty();
  return true;
}

NumberRange limits_of(Bound bound, std::string_view key) {
  switch (bound) {
    case Bound::positive:
      return {key.ends_with("_per_s") ? least_rate : least_number, most_number};
    case Bound::rate:
      return {least_rate, most_number};
    case Bound::not_negative:
      return {0, key.ends_with("_s") ? longest_s : most_number};
    case Bound::below_one:
      return {0, most_number};
    case Bound::constant:
      return {least_constant, most_constant};
    case Bound::constant_or_zero:
      return {0, most_constant};
    case Bound::gbit_per_s:
      return {1e-6, 1e9};
    default:
      return {least_number, most_number};
  }
}

BlockFields gpu_fields(Gpu& gpu) {
  return {
      {"name", &gpu.name},
      {"memory_bytes", &gpu.memory_bytes},
      {"memory_bandwidth_bytes_per_s", &gpu.memory_bandwidth_bytes_per_s},
      {"sm_count", &gpu.sm_count, Bound::at_least_one},
      {"clock_hz", &gpu.clock_hz, Bound::not_negative},
      {"l2_bytes", &gpu.l2_bytes, Bound::not_negative},
      {"tdp_w", &gpu.tdp_w, Bound::not_negative},
      {"compute_capability", &gpu.compute_capability, Bound::positive, false, "compute_capability"},
      {"measured", &gpu.measured, {}, false, "measured"},
      {"fp4_share", &gpu.kernels.fp4_share, Bound::constant, false, "fp4_share"},
      {"transposes_8_bits", &gpu.transposes_8_bits, {}, false, "transposes_8_bits"},
      {"sustained_clock_share", &gpu.sustained_clock_share, Bound::share, fitted,
       "sustained_clock_share"}};
}

BlockFields efficiency_fields(Gpu& gpu) {
  return {{"gemm", &gpu.gemm, {}, fitted},
          {"memory_bound", &gpu.memory_bound, {}, fitted},
          {"attention", &gpu.attention, {}, false, "attention"},
          {"attention_backward", &gpu.attention_backward, {}, false, "attention_backward"},
          {"kernel_latency_s", &gpu.kernel_latency_s, Bound::not_negative, fitted}};
}

BlockFields constant_fields(KernelConstants& k) {
  constexpr Bound or_zero = Bound::constant_or_zero;
  return {constant("fp32_share", &k.fp32_share),
          constant("tf32_share", &k.tf32_share),
          constant("fp8_share", &k.fp8_share),
          constant("batched_share", &k.batched_share),
          constant("misaligned_share", &k.misaligned_share),
          constant("misaligned_batched_share", &k.misaligned_batched_share),
          constant("depth_start", &k.depth_start, or_zero),
          constant("flash", std::vector{&k.flash_forward, &k.flash_backward}),
          constant("flash2", std::vector{&k.flash2_forward, &k.flash2_backward}),
          constant("flash3", std::vector{&k.flash3_forward, &k.flash3_backward}, or_zero),
          constant("cudnn", std::vector{&k.cudnn_forward, &k.cudnn_backward}, or_zero),
          constant("attention_ramp", &k.attention_ramp, or_zero),
          constant("narrow_head", &k.narrow_head),
          constant("score_traffic", &k.score_traffic),
          constant("loss_traffic", &k.loss_traffic),
          constant("gelu_instructions", &k.gelu_instructions, or_zero),
          constant("fp32_traffic", &k.fp32_traffic),
          constant("traffic", levels(k.traffic)),
          constant("optimizer_traffic", levels(k.optimizer_traffic)),
          constant("launches", levels(k.launches)),
          constant("exposed_launch", &k.exposed_launch, or_zero),
          constant("overlap_slowdown", &k.overlap_slowdown, or_zero),
          constant("straggling", &k.straggling, or_zero),
          constant("layer_straggling", &k.layer_straggling, or_zero)};
}

BlockFields nvlink_fields(Nvlink& nvlink) {
  return {
      {"links_per_gpu", &nvlink.links_per_gpu, Bound::at_least_one},
      {"link_bandwidth_bytes_per_s", &nvlink.link_bandwidth_bytes_per_s},
      {"efficiency", &nvlink.efficiency, Bound::share, fitted},
      {"group_efficiency", &nvlink.group, {}, false, "group_efficiency"},
      {"own_share", &nvlink.own_share, Bound::constant_or_zero, fitted, "own_share"},
      {"ll_bandwidth_bytes_per_s", &nvlink.ll_bandwidth_bytes_per_s, Bound::positive, fitted,
       "ll_bandwidth_bytes_per_s"},
      {"ll128_share", &nvlink.ll128_share, Bound::share, fitted, "ll128_share"},
      {"ll128_latency_s", &nvlink.ll128_latency_s, Bound::not_negative, fitted, "ll128_share"},
      {"simple_latency_s", &nvlink.simple_latency_s, Bound::not_negative, fitted,
       "ll_bandwidth_bytes_per_s"},
      {"simple_fill_bytes", &nvlink.simple_fill_bytes, Bound::not_negative, fitted,
       "simple_fill_bytes"},
      {"nvls_efficiency", &nvlink.nvls_efficiency, Bound::positive, fitted, "nvls_efficiency"},
      {"nvls_latency_s", &nvlink.nvls_latency_s, Bound::not_negative, fitted, "nvls_efficiency"},
      {"nvls_ramp_bytes", &nvlink.nvls_ramp_bytes, Bound::not_negative, fitted, "nvls_ramp_bytes"},
      {"exchange_share", &nvlink.exchange_share, Bound::constant, fitted, "exchange_share"},
      {"exchange_latency_s", &nvlink.exchange_latency_s, Bound::not_negative, fitted,
       "exchange_share"}};
}

BlockFields network_fields(Network& network) {
  return {{"nics", &network.nics, Bound::at_least_zero},
          {"gbit_per_s_each", &network.gbit_per_s_each, Bound::gbit_per_s},
          {"efficiency", &network.efficiency, Bound::share, fitted},
          {"gpudirect", &network.gpudirect},
          {"efa", &network.efa, {}, false, "efa"},
          {"tree_bandwidth_bytes_per_s", &network.tree_bandwidth_bytes_per_s, Bound::positive,
           false, "tree_bandwidth_bytes_per_s"},
          {"ll_bandwidth_bytes_per_s", &network.ll_bandwidth_bytes_per_s, Bound::positive, false,
           "ll_bandwidth_bytes_per_s"},
          {"simple_step_latency_s", &network.simple_step_latency_s, Bound::not_negative, fitted,
           "ll_bandwidth_bytes_per_s"}};
}

BlockFields pcie_fields(Pcie& pcie) {
  return {
      {"gpu_bandwidth_bytes_per_s", &pcie.gpu_bandwidth_bytes_per_s},
      {"uplink_bandwidth_bytes_per_s", &pcie.uplink_bandwidth_bytes_per_s},
      {"socket_bandwidth_bytes_per_s", &pcie.socket_bandwidth_bytes_per_s},
      {"peer_to_peer", &pcie.peer_to_peer},
      {"simple_latency_s", &pcie.simple_latency_s, Bound::not_negative, false, "simple_latency_s"}};
}

BlockFields shared_memory_fields(SharedMemory& memory) {
  return {{"rank_bandwidth_bytes_per_s", &memory.rank_bandwidth_bytes_per_s},
          {"total_bandwidth_bytes_per_s", &memory.total_bandwidth_bytes_per_s},
          {"copy_bandwidth_bytes_per_s", &memory.copy_bandwidth_bytes_per_s, Bound::positive, false,
           "copy_bandwidth_bytes_per_s"}};
}

BlockFields collectives_fields(Machine& machine) {
  CollectiveLatency &host = machine.host_latency, &network = machine.network_latency;
  return {{"host_latency_s", &host.latency_s, Bound::not_negative, fitted},
          {"host_step_latency_s", &host.step_latency_s, Bound::not_negative, fitted},
          {"network_latency_s", &network.latency_s, Bound::not_negative},
          {"network_step_latency_s", &network.step_latency_s, Bound::not_negative, fitted}};
}

BlockFields host_fields(Host& host) {
  return {
      {"vcpus", &host.vcpus, Bound::at_least_one},
      {"memory_bytes", &host.memory_bytes},
      {"host_launch_us", &host.host_launch_us, Bound::not_negative, fitted},
      {"driver_launch_us", &host.driver_launch_us, Bound::not_negative, false, "driver_launch_us"}};
}

BlockFields overheads_fields(LibraryOverheads& overheads) {
  return {{"context_bytes", &overheads.context_bytes, Bound::not_negative},
          {"communicator_bytes", &overheads.communicator_bytes, Bound::not_negative},
          {"workspace_bytes", &overheads.workspace_bytes, Bound::not_negative}};
}

BlockFields framework_fields(FrameworkMemory& framework) {
  return {{"capacity_bytes", &framework.capacity_bytes},
          {"context_bytes", &framework.context_bytes, Bound::not_negative},
          {"allocator_loss", &framework.allocator_loss, Bound::below_one}};
}

BlockFields interval_fields(Residuals::Interval& interval) {
  return {{"low", &interval.low},
          {"high", &interval.high},
          {"rows", &interval.rows, Bound::at_least_one}};
}

}  // namespace meshwright::hwprofiles
