#include "hwprofiles/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "models/core/error.h"
#include "models/core/fields.h"

namespace meshwright {

using nlohmann::json;

namespace {

constexpr Precision precisions[] = {Precision::fp32, Precision::tf32, Precision::fp16,
                                    Precision::bf16, Precision::fp8};

// Far beyond any hardware on both sides, and near enough that a step's time stays a number.
constexpr double smallest = 1e-12, largest = 1e21, least_rate = 1e3, longest_s = 1e3;
// Shares and factors that were fitted.
constexpr double least_constant = 1e-6, most_constant = 1e6;

double within(Fields& fields, std::string_view key, double low, double high) {
  const auto value = fields.required<double>(key);
  if (!(value >= low && value <= high))
    fields.fail(key, fmt::format("{} is out of range; use {} to {}", value, low, high));
  return value;
}

// Bytes or operations per second have a higher bound below.
double positive(Fields& fields, std::string_view key) {
  return within(fields, key, key.ends_with("_per_s") ? least_rate : smallest, largest);
}

// Zero: absent in effect.
double not_negative(Fields& fields, std::string_view key) {
  return within(fields, key, 0, key.ends_with("_s") ? longest_s : largest);
}

double fraction(Fields& fields, std::string_view key) {
  const double value = positive(fields, key);
  if (value > 1) fields.fail(key, "is a share of the peak and must not exceed 1");
  return value;
}

int count(Fields& fields, std::string_view key, int least) {
  const int value = fields.required<int>(key);
  if (value < least) fields.fail(key, "must be at least " + std::to_string(least));
  if (value > 1'000'000) fields.fail(key, "must be at most 1000000");
  return value;
}

// Opens a block and notes its source.
Fields block(Fields& fields, std::string_view key, Machine& machine) {
  Fields inner = fields.object(key);
  if (!inner.is_string("source"))
    inner.fail("source", "missing; every block of a profile says where its numbers come from");
  machine.sources.emplace_back(key, inner.required<std::string>("source"));
  return inner;
}

EfficiencyCurve curve(Fields& fields, std::string_view key) {
  const json& list = fields.raw(key);
  if (!list.is_array() || list.empty()) fields.fail(key, "expected a list of [size, share] pairs");
  EfficiencyCurve result;
  for (const json& pair : list) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number() || !pair[1].is_number())
      fields.fail(key, "expected pairs [size, share], found " + pair.dump());
    result.points.push_back({pair[0].get<double>(), pair[1].get<double>()});
    const EfficiencyCurve::Point& last = result.points.back();
    if (!(last.x >= smallest && last.x <= largest) || !(last.fraction >= smallest) ||
        last.fraction > 1)
      fields.fail(key, fmt::format("sizes must be {} to {} and shares {} to 1, found {}", smallest,
                                   largest, smallest, pair.dump()));
    if (result.points.size() > 1 && !(last.x > result.points[result.points.size() - 2].x))
      fields.fail(key, "sizes must grow from pair to pair");
  }
  return result;
}

void read_gpu(Fields gpu, Gpu& result) {
  result.name = gpu.required<std::string>("name");
  const std::string kind = gpu.required<std::string>("kind");
  result.kind = choose(gpu, "kind", "kind of device", kind, {"gpu", "cpu"}) == 0 ? DeviceKind::gpu
                                                                                 : DeviceKind::cpu;
  result.memory_bytes = positive(gpu, "memory_bytes");
  result.memory_bandwidth_bytes_per_s = positive(gpu, "memory_bandwidth_bytes_per_s");
  Fields peak = gpu.object("peak_flop_per_s");
  for (const Precision precision : precisions)
    if (peak.has(name_of(precision)))
      result.peak_flop_per_s[static_cast<std::size_t>(precision)] =
          within(peak, name_of(precision), least_rate, largest);
  peak.done();
  if (!result.supports(Precision::fp32))
    peak.fail("fp32", "missing; every device computes in fp32");
  result.sm_count = count(gpu, "sm_count", 1);
  result.clock_hz = not_negative(gpu, "clock_hz");
  result.l2_bytes = not_negative(gpu, "l2_bytes");
  result.tdp_w = not_negative(gpu, "tdp_w");
  if (gpu.has("sustained_clock_share"))
    result.sustained_clock_share = fraction(gpu, "sustained_clock_share");
  gpu.done();
}

// Those that divide a time must be above 0: shares and factors. Others may be absent in effect.
bool may_be_zero(std::string_view key) {
  return key == "depth_start" || key == "exposed_launch" || key == "overlap_slowdown" ||
         key == "straggling" || key == "layer_straggling" || key == "gelu_instructions";
}

KernelConstants read_kernel_constants(Fields& efficiency) {
  KernelConstants constants;
  for (const NamedConstant& constant : named(constants)) {
    const auto& [key, values] = constant;
    if (!efficiency.has(key)) continue;
    if (values.size() == 1) {
      *values[0] = within(efficiency, key, may_be_zero(key) ? 0 : least_constant, most_constant);
      continue;
    }
    const auto list = efficiency.required<std::vector<double>>(key);
    if (list.size() != values.size())
      efficiency.fail(key, "expected " + std::to_string(values.size()) + " numbers, found " +
                               std::to_string(list.size()));
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (!(list[i] >= least_constant && list[i] <= most_constant))
        efficiency.fail(key, fmt::format("{} is out of range; use {} to {}", list[i],
                                         least_constant, most_constant));
      *values[i] = list[i];
    }
  }
  return constants;
}

std::vector<ThreadScaling> read_thread_scaling(Fields& efficiency) {
  std::vector<ThreadScaling> result;
  for (Fields& fields : efficiency.objects("thread_scaling")) {
    ThreadScaling scaling;
    scaling.threads = count(fields, "threads", 2);
    if (!result.empty() && scaling.threads <= result.back().threads)
      fields.fail("threads", "must grow from entry to entry");
    scaling.gemm = curve(fields, "gemm");
    scaling.memory_bound = curve(fields, "memory_bound");
    scaling.attention = curve(fields, "attention");
    fields.done();
    result.push_back(std::move(scaling));
  }
  return result;
}

void read_efficiency(Fields efficiency, Gpu& gpu) {
  gpu.gemm = curve(efficiency, "gemm");
  gpu.memory_bound = curve(efficiency, "memory_bound");
  if (efficiency.has("attention")) gpu.attention = curve(efficiency, "attention");
  if (efficiency.has("attention_backward"))
    gpu.attention_backward = curve(efficiency, "attention_backward");
  if (efficiency.has("thread_scaling")) gpu.thread_scaling = read_thread_scaling(efficiency);
  gpu.kernel_latency_s = not_negative(efficiency, "kernel_latency_s");
  gpu.kernels = read_kernel_constants(efficiency);
  efficiency.done();
}

std::vector<std::vector<int>> link_matrix(Fields& fields, std::string_view key, int gpus) {
  const json& rows = fields.raw(key);
  const auto size = static_cast<std::size_t>(gpus);
  const std::string shape = "expected " + std::to_string(gpus) + " rows of " +
                            std::to_string(gpus) + " link counts from 0 to 64";
  std::vector<std::vector<int>> matrix;
  if (!rows.is_array() || rows.size() != size) fields.fail(key, shape);
  for (const json& row : rows) {
    if (!row.is_array() || row.size() != size) fields.fail(key, shape);
    matrix.emplace_back();
    for (const json& links : row) {
      if (!links.is_number_integer() || links < 0 || links > 64) fields.fail(key, shape);
      matrix.back().push_back(links.get<int>());
    }
  }
  for (std::size_t a = 0; a < size; ++a)
    for (std::size_t b = 0; b < size; ++b)
      if (matrix[a][b] != matrix[b][a] || (a == b && matrix[a][b] != 0))
        fields.fail(key, "must be symmetric with zeros on its diagonal");
  return matrix;
}

void read_nvlink(Fields nvlink, Machine& machine) {
  Nvlink& result = machine.nvlink;
  const std::string kind = nvlink.required<std::string>("kind");
  result.kind = static_cast<NvlinkKind>(
      choose(nvlink, "kind", "kind of NVLink", kind, {"none", "matrix", "nvswitch"}));
  if (result.kind != NvlinkKind::none) {
    result.links_per_gpu = count(nvlink, "links_per_gpu", 1);
    result.link_bandwidth_bytes_per_s = positive(nvlink, "link_bandwidth_bytes_per_s");
    result.efficiency = fraction(nvlink, "efficiency");
    result.group = curve(nvlink, "group_efficiency");
    if (nvlink.has("ll_bandwidth_bytes_per_s")) {
      result.ll_bandwidth_bytes_per_s = positive(nvlink, "ll_bandwidth_bytes_per_s");
      result.simple_latency_s = not_negative(nvlink, "simple_latency_s");
    }
    if (nvlink.has("nvls_efficiency")) {
      result.nvls_efficiency = positive(nvlink, "nvls_efficiency");
      result.nvls_latency_s = not_negative(nvlink, "nvls_latency_s");
    }
  }
  if (result.kind == NvlinkKind::matrix)
    result.links_between = link_matrix(nvlink, "links_between", machine.gpus);
  nvlink.done();
}

void check_members(const Fields& fields, std::string_view what, std::vector<int> members,
                   int expected) {
  std::sort(members.begin(), members.end());
  bool each_once = static_cast<int>(members.size()) == expected;
  for (int i = 0; each_once && i < expected; ++i)
    each_once = members[static_cast<std::size_t>(i)] == i;
  if (!each_once)
    fields.fail("switches", "must name each of the " + std::to_string(expected) + " " +
                                std::string(what) + " exactly once, counted from 0");
}

void read_pcie(Fields pcie, Machine& machine) {
  Pcie& result = machine.pcie;
  result.gpu_bandwidth_bytes_per_s = positive(pcie, "gpu_bandwidth_bytes_per_s");
  result.uplink_bandwidth_bytes_per_s = positive(pcie, "uplink_bandwidth_bytes_per_s");
  result.socket_bandwidth_bytes_per_s = positive(pcie, "socket_bandwidth_bytes_per_s");
  result.peer_to_peer = pcie.required<bool>("peer_to_peer");
  std::vector<int> gpus, nics;
  for (Fields& item : pcie.objects("switches")) {
    PcieSwitch one{item.required<std::vector<int>>("gpus"), item.required<std::vector<int>>("nics"),
                   item.required<int>("numa")};
    if (one.numa < 0 || one.numa > 63) item.fail("numa", "must be a node number from 0 to 63");
    item.done();
    gpus.insert(gpus.end(), one.gpus.begin(), one.gpus.end());
    nics.insert(nics.end(), one.nics.begin(), one.nics.end());
    result.switches.push_back(std::move(one));
  }
  check_members(pcie, "GPUs", gpus, machine.gpus);
  check_members(pcie, "NICs", nics, machine.network.nics);
  pcie.done();
}

void read_network(Fields network, Network& result) {
  result.nics = count(network, "nics", 0);
  result.gbit_per_s_each = within(network, "gbit_per_s_each", 1e-6, 1e9);
  result.efficiency = fraction(network, "efficiency");
  result.gpudirect = network.required<bool>("gpudirect");
  result.efa = network.optional<bool>("efa", false);
  if (network.has("tree_bandwidth_bytes_per_s"))
    result.tree_bandwidth_bytes_per_s = positive(network, "tree_bandwidth_bytes_per_s");
  if (network.has("ll_bandwidth_bytes_per_s")) {
    result.ll_bandwidth_bytes_per_s = positive(network, "ll_bandwidth_bytes_per_s");
    result.simple_step_latency_s = not_negative(network, "simple_step_latency_s");
  }
  network.done();
}

void read_collectives(Fields latency, Machine& machine) {
  machine.host_latency = {not_negative(latency, "host_latency_s"),
                          not_negative(latency, "host_step_latency_s")};
  machine.network_latency = {not_negative(latency, "network_latency_s"),
                             not_negative(latency, "network_step_latency_s")};
  latency.done();
}

SharedMemory read_shared_memory(Fields memory) {
  SharedMemory result{positive(memory, "rank_bandwidth_bytes_per_s"),
                      positive(memory, "total_bandwidth_bytes_per_s"), 0};
  if (memory.has("copy_bandwidth_bytes_per_s"))
    result.copy_bandwidth_bytes_per_s = positive(memory, "copy_bandwidth_bytes_per_s");
  memory.done();
  return result;
}

void read_host(Fields host, Host& result) {
  result.vcpus = count(host, "vcpus", 1);
  result.memory_bytes = positive(host, "memory_bytes");
  result.host_launch_us = not_negative(host, "host_launch_us");
  host.done();
}

void read_overheads(Fields overheads, LibraryOverheads& result) {
  result.context_bytes = not_negative(overheads, "context_bytes");
  result.communicator_bytes = not_negative(overheads, "communicator_bytes");
  result.workspace_bytes = not_negative(overheads, "workspace_bytes");
  overheads.done();
}

FrameworkMemory read_framework(Fields framework) {
  FrameworkMemory result;
  result.capacity_bytes = positive(framework, "capacity_bytes");
  result.context_bytes = not_negative(framework, "context_bytes");
  result.allocator_loss = not_negative(framework, "allocator_loss");
  if (result.allocator_loss >= 1) framework.fail("allocator_loss", "is a share; use less than 1");
  framework.done();
  return result;
}

std::optional<Residuals::Interval> read_interval(Fields& residuals, std::string_view key) {
  if (!residuals.has(key)) return std::nullopt;
  Fields fields = residuals.object(key);
  const Residuals::Interval interval{positive(fields, "low"), positive(fields, "high"),
                                     count(fields, "rows", 1)};
  if (interval.low > interval.high) fields.fail("low", "must not exceed high");
  fields.done();
  return interval;
}

Residuals read_residuals(Fields residuals) {
  Residuals result;
  result.one_host = read_interval(residuals, "one_host");
  result.many_hosts = read_interval(residuals, "many_hosts");
  residuals.done();
  return result;
}

Prices read_prices(Fields prices) {
  Prices result;
  result.on_demand_usd_per_hour = positive(prices, "on_demand_usd_per_hour");
  if (prices.has("spot_usd_per_hour"))
    result.spot_usd_per_hour = positive(prices, "spot_usd_per_hour");
  result.as_of = prices.required<std::string>("as_of");
  prices.done();
  return result;
}

Machine read_machine(Fields profile) {
  Machine machine;
  machine.name = profile.required<std::string>("name");
  machine.aliases = profile.optional<std::vector<std::string>>("aliases", {});
  machine.gpus = count(profile, "gpus", 1);
  if (machine.gpus > 64) profile.fail("gpus", "at most 64 per host");
  machine.calibration = profile.required<std::string>("calibration");
  choose(profile, "calibration", "state of calibration", machine.calibration,
         {"spec sheet", "fitted on evidence", std::string(calibrated_here)});
  machine.concurrent_streams = profile.required<bool>("concurrent_streams");
  read_gpu(block(profile, "gpu", machine), machine.gpu);
  read_efficiency(block(profile, "efficiency", machine), machine.gpu);
  if (machine.gpu.kind == DeviceKind::gpu) {
    read_nvlink(block(profile, "nvlink", machine), machine);
    read_network(block(profile, "network", machine), machine.network);
    read_pcie(block(profile, "pcie", machine), machine);
  } else {
    machine.shared_memory = read_shared_memory(block(profile, "shared_memory", machine));
  }
  read_collectives(block(profile, "collectives", machine), machine);
  read_host(block(profile, "host", machine), machine.host);
  read_overheads(block(profile, "overheads", machine), machine.overheads);
  if (profile.has("framework"))
    machine.framework = read_framework(block(profile, "framework", machine));
  if (profile.has("residuals"))
    machine.residuals = read_residuals(block(profile, "residuals", machine));
  if (profile.has("prices") && !profile.raw("prices").is_null())
    machine.prices = read_prices(block(profile, "prices", machine));
  profile.done();
  return machine;
}

}  // namespace

std::string profiles_folder() {
  const char* moved = std::getenv("MESHWRIGHT_MACHINES");  // a build that was moved
  return moved != nullptr ? moved : MESHWRIGHT_MACHINES_FOLDER;
}

Machine load_machine_file(const std::string& path) { return read_machine(read_json_file(path)); }

Machine machine_of_text(const std::string& text, const std::string& where) {
  return read_machine({parse_json(text, where), where});
}

std::vector<std::string> list_machines(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  if (error) throw InputError(folder + ": the folder of machine profiles cannot be read");
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<Machine> machine_if_known(const std::string& name, const std::string& folder) {
  const std::string wanted = name.starts_with("ml.") ? name.substr(3) : name;
  const std::vector<std::string> names = list_machines(folder);
  if (std::find(names.begin(), names.end(), wanted) != names.end())
    return load_machine_file(folder + "/" + wanted + ".json");
  for (const std::string& candidate : names) {
    Machine machine = load_machine_file(folder + "/" + candidate + ".json");
    if (std::find(machine.aliases.begin(), machine.aliases.end(), wanted) != machine.aliases.end())
      return machine;
  }
  return std::nullopt;
}

Machine load_machine(const std::string& name, const std::string& folder) {
  if (const std::optional<Machine> machine = machine_if_known(name, folder)) return *machine;
  const std::string near =
      nearest(name.starts_with("ml.") ? name.substr(3) : name, list_machines(folder));
  throw InputError("unknown machine '" + name + "'" +
                   (near.empty() ? "" : "; did you mean '" + near + "'?") +
                   (near.empty() ? "; " : " ") + "`meshwright list machines` lists them");
}

}  // namespace meshwright
