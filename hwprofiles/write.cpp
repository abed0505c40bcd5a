// Writes profiles of machines. load.h declares these functions.
#include <algorithm>

#include "hwprofiles/blocks.h"
#include "hwprofiles/load.h"
#include "models/core/error.h"
#include "models/core/json.h"
#include "models/core/output_file.h"

namespace meshwright::hwprofiles {

using Json = nlohmann::ordered_json;

namespace {

constexpr Precision precisions[] = {Precision::fp32, Precision::tf32, Precision::fp16,
                                    Precision::bf16, Precision::fp8,  Precision::nvfp4};

Json to_json(const EfficiencyCurve& curve) {
  Json list = Json::array();
  for (const auto& point : curve.points) list.push_back({point.x, point.fraction});
  if (list.empty()) list.push_back({1.0, 1.0});
  return list;
}

Json to_json(const BlockField& row) {
  if (const auto* places = std::get_if<std::vector<double*>>(&row.place)) {
    Json list = Json::array();
    for (const double* place : *places) list.push_back(*place);
    return list;
  }
  if (const auto* place = std::get_if<std::optional<double>*>(&row.place)) return ***place;
  if (const auto* place = std::get_if<EfficiencyCurve*>(&row.place)) return to_json(**place);
  if (const auto* place = std::get_if<std::string*>(&row.place)) return **place;
  if (const auto* place = std::get_if<bool*>(&row.place)) return **place;
  if (const auto* place = std::get_if<int*>(&row.place)) return **place;
  return *std::get<double*>(row.place);
}

bool is_set(const BlockFields& rows, std::string_view key) {
  return std::ranges::any_of(rows,
                             [&](const BlockField& row) { return row.key == key && row.is_set(); });
}

Json block_of(const BlockFields& rows) {
  Json block = Json::object();
  for (const BlockField& row : rows)
    if (row.only_with.empty() || is_set(rows, row.only_with))
      block[std::string(row.key)] = to_json(row);
  return block;
}

Json gpu_block(Gpu gpu) {
  Json peak = Json::object();
  for (const Precision precision : precisions)
    if (gpu.supports(precision))
      peak[std::string(peak_name(precision))] = gpu.peak(precision).value;
  Json block = block_of(gpu_fields(gpu));
  block["kind"] = gpu.kind == DeviceKind::gpu ? "gpu" : "cpu";
  block["peak_flop_per_s"] = peak;
  return block;
}

Json efficiency_block(Gpu gpu) {
  Json block = block_of(efficiency_fields(gpu));
  for (const ThreadScaling& scaling : gpu.thread_scaling)
    block["thread_scaling"].push_back({{"threads", scaling.threads},
                                       {"gemm", to_json(scaling.gemm)},
                                       {"memory_bound", to_json(scaling.memory_bound)},
                                       {"attention", to_json(scaling.attention)}});
  if (gpu.kernels != KernelConstants()) block.update(block_of(constant_fields(gpu.kernels)));
  return block;
}

Json nvlink_block(Nvlink nvlink) {
  constexpr const char* kinds[] = {"none", "matrix", "nvswitch"};
  Json block = {{"kind", kinds[static_cast<int>(nvlink.kind)]}};
  if (nvlink.kind == NvlinkKind::none) return block;
  block.update(block_of(nvlink_fields(nvlink)));
  if (nvlink.kind == NvlinkKind::matrix) block["links_between"] = nvlink.links_between;
  return block;
}

Json pcie_block(Pcie pcie) {
  Json block = block_of(pcie_fields(pcie));
  block["switches"] = Json::array();
  for (const PcieSwitch& one : pcie.switches)
    block["switches"].push_back({{"gpus", one.gpus}, {"nics", one.nics}, {"numa", one.numa}});
  return block;
}

Json residuals_block(Residuals residuals) {
  Json block = Json::object();
  if (residuals.one_host) block["one_host"] = block_of(interval_fields(*residuals.one_host));
  if (residuals.many_hosts) block["many_hosts"] = block_of(interval_fields(*residuals.many_hosts));
  return block;
}

Json links(Machine& machine) {
  if (machine.shared_memory)
    return {{"shared_memory", block_of(shared_memory_fields(*machine.shared_memory))}};
  return {{"nvlink", nvlink_block(machine.nvlink)},
          {"network", block_of(network_fields(machine.network))},
          {"pcie", pcie_block(machine.pcie)}};
}

Json profile_of(Machine machine) {
  Json profile = {{"name", machine.name},
                  {"aliases", machine.aliases},
                  {"gpus", machine.gpus},
                  {"calibration", name_of(machine.calibration)},
                  {"concurrent_streams", machine.concurrent_streams},
                  {"gpu", gpu_block(machine.gpu)},
                  {"efficiency", efficiency_block(machine.gpu)}};
  profile.update(links(machine));
  profile["collectives"] = block_of(collectives_fields(machine));
  profile["host"] = block_of(host_fields(machine.host));
  profile["overheads"] = block_of(overheads_fields(machine.overheads));
  if (machine.framework) profile["framework"] = block_of(framework_fields(*machine.framework));
  if (machine.residuals) profile["residuals"] = residuals_block(*machine.residuals);
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
  const std::string text = text_of(machine);
  OutputFile file(path);
  file.write(text);
  file.finish();
}

}  // namespace meshwright::hwprofiles
