// The writing half of load.h.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "hwprofiles/load.h"
#include "models/core/error.h"

namespace meshwright {

using Json = nlohmann::ordered_json;

namespace {

constexpr Precision precisions[] = {Precision::fp32, Precision::tf32, Precision::fp16,
                                    Precision::bf16, Precision::fp8};

Json to_json(const EfficiencyCurve& curve) {
  Json list = Json::array();
  for (const auto& point : curve.points) list.push_back({point.x, point.fraction});
  if (list.empty()) list.push_back({1.0, 1.0});
  return list;
}

Json gpu_block(const Gpu& gpu) {
  Json peak = Json::object();
  for (const Precision precision : precisions)
    if (gpu.supports(precision)) peak[std::string(name_of(precision))] = gpu.peak(precision).value;
  return {{"name", gpu.name},
          {"kind", gpu.kind == DeviceKind::gpu ? "gpu" : "cpu"},
          {"memory_bytes", gpu.memory_bytes},
          {"memory_bandwidth_bytes_per_s", gpu.memory_bandwidth_bytes_per_s},
          {"peak_flop_per_s", peak},
          {"sm_count", gpu.sm_count},
          {"clock_hz", gpu.clock_hz},
          {"l2_bytes", gpu.l2_bytes},
          {"tdp_w", gpu.tdp_w},
          {"sustained_clock_share", gpu.sustained_clock_share}};
}

Json efficiency_block(const Gpu& gpu) {
  Json block = {{"gemm", to_json(gpu.gemm)},
                {"memory_bound", to_json(gpu.memory_bound)},
                {"kernel_latency_s", gpu.kernel_latency_s}};
  for (const ThreadScaling& scaling : gpu.thread_scaling)
    block["thread_scaling"].push_back({{"threads", scaling.threads},
                                       {"gemm", to_json(scaling.gemm)},
                                       {"memory_bound", to_json(scaling.memory_bound)},
                                       {"attention", to_json(scaling.attention)}});
  KernelConstants constants = gpu.kernels;
  if (constants == KernelConstants()) return block;
  for (const NamedConstant& constant : named(constants)) {
    Json& value = block[std::string(constant.key)];
    if (constant.values.size() == 1)
      value = *constant.values[0];
    else
      for (const double* each : constant.values) value.push_back(*each);
  }
  return block;
}

Json nvlink_block(const Nvlink& nvlink) {
  constexpr const char* kinds[] = {"none", "matrix", "nvswitch"};
  Json block = {{"kind", kinds[static_cast<int>(nvlink.kind)]}};
  if (nvlink.kind == NvlinkKind::none) return block;
  block["links_per_gpu"] = nvlink.links_per_gpu;
  block["link_bandwidth_bytes_per_s"] = nvlink.link_bandwidth_bytes_per_s;
  block["efficiency"] = nvlink.efficiency;
  block["group_efficiency"] = to_json(nvlink.group);
  if (nvlink.ll_bandwidth_bytes_per_s > 0) {
    block["ll_bandwidth_bytes_per_s"] = nvlink.ll_bandwidth_bytes_per_s;
    block["simple_latency_s"] = nvlink.simple_latency_s;
  }
  if (nvlink.nvls_efficiency > 0) {
    block["nvls_efficiency"] = nvlink.nvls_efficiency;
    block["nvls_latency_s"] = nvlink.nvls_latency_s;
  }
  if (nvlink.kind == NvlinkKind::matrix) block["links_between"] = nvlink.links_between;
  return block;
}

Json pcie_block(const Pcie& pcie) {
  Json switches = Json::array();
  for (const PcieSwitch& one : pcie.switches)
    switches.push_back({{"gpus", one.gpus}, {"nics", one.nics}, {"numa", one.numa}});
  return {{"gpu_bandwidth_bytes_per_s", pcie.gpu_bandwidth_bytes_per_s},
          {"uplink_bandwidth_bytes_per_s", pcie.uplink_bandwidth_bytes_per_s},
          {"socket_bandwidth_bytes_per_s", pcie.socket_bandwidth_bytes_per_s},
          {"peer_to_peer", pcie.peer_to_peer},
          {"switches", switches}};
}

Json network_block(const Network& network) {
  Json block = {{"nics", network.nics},
                {"gbit_per_s_each", network.gbit_per_s_each},
                {"efficiency", network.efficiency},
                {"gpudirect", network.gpudirect}};
  if (network.efa) block["efa"] = true;
  if (network.tree_bandwidth_bytes_per_s > 0)
    block["tree_bandwidth_bytes_per_s"] = network.tree_bandwidth_bytes_per_s;
  if (network.ll_bandwidth_bytes_per_s > 0) {
    block["ll_bandwidth_bytes_per_s"] = network.ll_bandwidth_bytes_per_s;
    block["simple_step_latency_s"] = network.simple_step_latency_s;
  }
  return block;
}

Json prices_block(const Prices& prices) {
  Json block = {{"on_demand_usd_per_hour", prices.on_demand_usd_per_hour}};
  if (prices.spot_usd_per_hour) block["spot_usd_per_hour"] = *prices.spot_usd_per_hour;
  block["as_of"] = prices.as_of;
  return block;
}

Json residuals_block(const Residuals& residuals) {
  Json block = Json::object();
  const auto add = [&](const char* key, const std::optional<Residuals::Interval>& interval) {
    if (interval)
      block[key] = {{"low", interval->low}, {"high", interval->high}, {"rows", interval->rows}};
  };
  add("one_host", residuals.one_host);
  add("many_hosts", residuals.many_hosts);
  return block;
}

Json shared_memory_block(const SharedMemory& memory) {
  Json block = {{"rank_bandwidth_bytes_per_s", memory.rank_bandwidth_bytes_per_s},
                {"total_bandwidth_bytes_per_s", memory.total_bandwidth_bytes_per_s}};
  if (memory.copy_bandwidth_bytes_per_s > 0)
    block["copy_bandwidth_bytes_per_s"] = memory.copy_bandwidth_bytes_per_s;
  return block;
}

Json links(const Machine& machine) {
  if (machine.shared_memory)
    return {{"shared_memory", shared_memory_block(*machine.shared_memory)}};
  return {{"nvlink", nvlink_block(machine.nvlink)},
          {"network", network_block(machine.network)},
          {"pcie", pcie_block(machine.pcie)}};
}

Json profile_of(const Machine& machine) {
  Json profile = {{"name", machine.name},
                  {"aliases", machine.aliases},
                  {"gpus", machine.gpus},
                  {"calibration", machine.calibration},
                  {"concurrent_streams", machine.concurrent_streams},
                  {"gpu", gpu_block(machine.gpu)}};
  profile["efficiency"] = efficiency_block(machine.gpu);
  if (!machine.gpu.attention.points.empty())
    profile["efficiency"]["attention"] = to_json(machine.gpu.attention);
  if (!machine.gpu.attention_backward.points.empty())
    profile["efficiency"]["attention_backward"] = to_json(machine.gpu.attention_backward);
  profile.update(links(machine));
  profile["collectives"] = {{"host_latency_s", machine.host_latency.latency_s},
                            {"host_step_latency_s", machine.host_latency.step_latency_s},
                            {"network_latency_s", machine.network_latency.latency_s},
                            {"network_step_latency_s", machine.network_latency.step_latency_s}};
  profile["host"] = {{"vcpus", machine.host.vcpus},
                     {"memory_bytes", machine.host.memory_bytes},
                     {"host_launch_us", machine.host.host_launch_us}};
  profile["overheads"] = {{"context_bytes", machine.overheads.context_bytes},
                          {"communicator_bytes", machine.overheads.communicator_bytes},
                          {"workspace_bytes", machine.overheads.workspace_bytes}};
  if (machine.framework)
    profile["framework"] = {{"capacity_bytes", machine.framework->capacity_bytes},
                            {"context_bytes", machine.framework->context_bytes},
                            {"allocator_loss", machine.framework->allocator_loss}};
  if (machine.residuals) profile["residuals"] = residuals_block(*machine.residuals);
  profile["prices"] = machine.prices ? prices_block(*machine.prices) : Json(nullptr);
  for (const auto& [block, source] : machine.sources)
    if (profile.contains(block) && profile[block].is_object()) profile[block]["source"] = source;
  for (const auto& [key, value] : profile.items())
    MESHWRIGHT_CHECK(!value.is_object() || value.contains("source"),
                     "a machine to be written names the source of every block");
  return profile;
}

}  // namespace

std::string text_of(const Machine& machine) { return profile_of(machine).dump(2) + "\n"; }

void write_machine(const Machine& machine, const std::string& path) {
  std::error_code error;
  const auto folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  std::ofstream file(path);
  file << text_of(machine);
  file.flush();
  if (!file) throw RunError(path + ": cannot be written");
}

}  // namespace meshwright
