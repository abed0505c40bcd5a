#include "tools/measure/gpu.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "hwprofiles/cores.h"
#include "hwprofiles/machine_like.h"
#include "tools/measure/gpu_bench.h"
#include "tools/measure/gpu_ranks.h"
#include "tools/measure/gpu_rates.h"
#include "tools/session/engine.h"
#include "tools/session/process_memory.h"

namespace meshwright::tools {

namespace {

using Clock = std::chrono::steady_clock;

// Holds the engine of a GPU of this computer for a single rank.
struct Device {
  std::unique_ptr<World> host = make_world("self");
  Engine engine;
  Device(const Machine& machine, Precision precision)
      : engine(make_engine({machine, 1, 1, {}, {}}, {.precision = precision}, *host,
                           WorldOptions{}.deadline_s)) {}
};

// Returns the bytes per second of the slower direction of copies between host and device.
double copy_rate(GpuBench& bench) {
  constexpr std::int64_t bytes = std::int64_t{64} << 20;
  Backend& backend = bench.backend();
  char* own = bench.outputs(bytes);
  void* host = backend.allocate_host(bytes);
  const double out = bench.seconds([&](std::int64_t) { backend.copy(host, own, bytes); });
  const double in = bench.seconds([&](std::int64_t) { backend.copy(own, host, bytes); });
  backend.deallocate_host(host);
  return static_cast<double>(bytes) / std::max(out, in);
}

Precision of_16_bits(const GpuHere& here) {
  return here.generation >= 80 ? Precision::bf16 : Precision::fp16;
}

// Measures everything about one GPU that needs no communication.
void measure_alone(const GpuHere& here, const TimeBudget& budget, const MeasureWatch& watch,
                   Machine& machine, std::vector<std::string>& measured) {
  Gpu& gpu = machine.gpu;
  const auto spread = static_cast<std::int64_t>(2 * here.gpu.l2_bytes) + (std::int64_t{16} << 20);
  const Precision half = of_16_bits(here);
  {
    const Device device(machine, half);
    Backend& backend = *device.engine.backend;
    machine.overheads.workspace_bytes = here.workspace_bytes;
    machine.overheads.context_bytes = static_cast<double>(backend.used_bytes());
    {
      GpuBench bench(backend, spread, budget);
      GpuRates rates(bench, gpu, measured);
      bench.warm_up();
      rates.kernel_latency();
      watch(0.1, "memory");
      rates.memory(storage_of(half));
      watch(0.2, "matrix products");
      rates.products(half);
      rates.other_products(Precision::fp32, gpu.kernels.fp32_share);
      machine.pcie.gpu_bandwidth_bytes_per_s = copy_rate(bench);
      watch(0.5, "attention");
      rates.attention(half);
      watch(0.6, "other kernels");
      rates.traffic(storage_of(half));
      rates.optimizer(storage_of(half));
      rates.score_products(half);
      double& fp16 = gpu.peak_flop_per_s[static_cast<std::size_t>(Precision::fp16)];
      if (half == Precision::bf16 && fp16 == 0) {
        double whole = 1;
        rates.other_products(Precision::fp16, whole);
      }
    }
    // The memory in use includes by now the code of all kernels that ran.
    machine.overheads.context_bytes =
        std::max(machine.overheads.context_bytes, static_cast<double>(backend.used_bytes())) -
        here.workspace_bytes;
  }
  for (const Precision precision : {Precision::tf32, Precision::fp8}) {
    watch(0.8, "products in fewer bits");
    const Device device(machine, precision);
    if (!device.engine.backend->computes_in(precision)) continue;
    GpuBench bench(*device.engine.backend, spread, budget);
    GpuRates rates(bench, gpu, measured);
    if (precision == Precision::tf32)
      rates.other_products(precision, gpu.kernels.tf32_share);
    else
      rates.fp8_products();
  }
}

// Returns the kernel constants of the known machine with GPUs like this one, or else the defaults.
// Constants that describe the frameworks of published measurements are replaced by the engine's.
KernelConstants constants_of_engine(const std::optional<Machine>& known) {
  const KernelConstants ours;
  if (!known) return ours;
  KernelConstants constants = known->gpu.kernels;
  constants.score_traffic = constants.loss_traffic = constants.fp32_traffic = 1;
  constants.traffic = ours.traffic;
  constants.optimizer_traffic = ours.optimizer_traffic;
  constants.launches = ours.launches;  // the Program's kernels, in one graph
  constants.exposed_launch = 0;
  constants.fp32_share = constants.tf32_share = 1;
  constants.depth_start = 0;
  return constants;
}

void add_network(Machine& machine) {
  machine.network.nics = 0;
  machine.network.gbit_per_s_each = 1;
}

// Sets NVLink and the PCIe switches to those of the known machine if it has the same number of
// GPUs. Otherwise gives each GPU a PCIe switch of its own. The bandwidth between sockets and the
// host's latency are those of the known machine, if there is one.
void add_links(const GpuHere& here, const std::optional<Machine>& known, Machine& machine) {
  machine.pcie.peer_to_peer = here.reaches_others;
  machine.pcie.switches.clear();
  const bool alike = known && known->gpus == machine.gpus;
  if (alike) {
    machine.pcie.switches = known->pcie.switches;
    for (PcieSwitch& each : machine.pcie.switches) each.nics.clear();
    machine.nvlink = known->nvlink;
  } else {
    for (int gpu = 0; gpu < machine.gpus; ++gpu)
      machine.pcie.switches.push_back({.gpus = {gpu}, .nics = {}, .numa = 0});
  }
  machine.pcie.uplink_bandwidth_bytes_per_s = machine.pcie.gpu_bandwidth_bytes_per_s;
  for (const PcieSwitch& each : machine.pcie.switches)
    machine.pcie.uplink_bandwidth_bytes_per_s =
        std::max(machine.pcie.uplink_bandwidth_bytes_per_s,
                 machine.pcie.gpu_bandwidth_bytes_per_s * static_cast<double>(each.gpus.size()));
  machine.pcie.socket_bandwidth_bytes_per_s =
      known ? known->pcie.socket_bandwidth_bytes_per_s : machine.pcie.gpu_bandwidth_bytes_per_s;
  if (known) machine.host_latency = known->host_latency;
}

void add_collectives(const GpuRankRates& rates, const std::optional<Machine>& known,
                     Machine& machine) {
  const int ranks = machine.gpus;
  const double step =
      known ? known->host_latency.step_latency_s : rates.latency_s / 2 / (ranks - 1);
  machine.host_latency = {std::max(0.0, rates.latency_s - 2 * (ranks - 1) * step), step};
  machine.overheads.communicator_bytes = rates.communicator_bytes;
  const double pcie = rates.copy_bandwidth_bytes_per_s;
  machine.pcie.gpu_bandwidth_bytes_per_s = pcie;
  Nvlink& nvlink = machine.nvlink;
  if (nvlink.kind != NvlinkKind::none) {
    nvlink.efficiency = std::clamp(
        rates.bandwidth_bytes_per_s / (nvlink.links_per_gpu * nvlink.link_bandwidth_bytes_per_s),
        1e-3, 1.0);
    nvlink.nvls_efficiency = nvlink.nvls_latency_s = 0;  // whatever NCCL took was measured
    nvlink.ll_bandwidth_bytes_per_s = nvlink.simple_latency_s = nvlink.simple_fill_bytes = 0;
    nvlink.ll128_share = nvlink.own_share = nvlink.exchange_share = 0;
  } else if (machine.pcie.peer_to_peer && rates.bandwidth_bytes_per_s > 1.2 * pcie) {
    nvlink.kind = NvlinkKind::nvswitch;
    nvlink.links_per_gpu = 1;
    nvlink.link_bandwidth_bytes_per_s = rates.bandwidth_bytes_per_s;
    nvlink.efficiency = 1;
  } else {
    // In a ring over PCIe every switch has one link to the next, so its uplink has the measured
    // rate.
    machine.pcie.uplink_bandwidth_bytes_per_s = rates.bandwidth_bytes_per_s;
    return;
  }
  nvlink.group.points = {{1.0 * ranks, 1}};
  if (ranks > 2)
    nvlink.group.points.insert(
        nvlink.group.points.begin(),
        {2, std::clamp(rates.pair_bandwidth_bytes_per_s / rates.bandwidth_bytes_per_s, 1e-3, 1.0)});
}

void add_sources(const std::optional<Machine>& known, const std::vector<std::string>& measured,
                 bool several, Machine& machine) {
  const std::string here = "measured on this computer";
  const std::string other = known ? "as " + known->name : "defaults";
  const auto add = [&](const char* block, const std::string& text) {
    machine.sources.emplace_back(block, text);
  };
  add("gpu", known ? "name, sizes and clock: the driver; peaks on paper: " + known->name
                   : "name, sizes and clock: the driver; peaks: the fastest measured here");
  add("efficiency", fmt::format("{} (traffic and launches are the engine's own): {}; otherwise {}",
                                here, fmt::join(measured, ", "), other));
  const std::string links = several ? here + ": all-reduce over all ranks" : "one rank";
  add("nvlink", links);
  add("network", "none: this computer alone; a job's cluster.network says otherwise");
  add("pcie", here + ": copies to and from pinned memory; sockets " +
                  (known ? "as " + known->name : "taken as fast"));
  add("collectives", several ? here : known ? "as " + known->name : "none: one rank");
  add("host", here + "; a captured step has no launches");
  add("overheads", here);
}

// Returns whether matmuls in 8 bits need transposed copies of operands: on Ada, Hopper and
// Blackwell's workstation GPUs (cuBLASLt's documentation). `generation` is the compute capability
// times 10.
bool transposes_8_bits(int generation) {
  return generation == 89 || generation == 90 || generation / 10 == 12;
}

}  // namespace

Machine measure_this_gpu(const Options& options, MeasureEffort effort, const MeasureWatch& watch) {
  const bool quick = effort == MeasureEffort::quick;
  const TimeBudget budget{quick ? 0.02 : 0.25,
                          Clock::now() + std::chrono::seconds(quick ? 10 : 60)};
  const GpuHere here = gpu_here(0);
  const int gpus = gpus_here();
  const std::optional<Machine> known = machine_like(here.gpu, gpus);

  Machine machine;
  machine.name = "local";
  machine.gpus = options.ranks.value_or(gpus);
  machine.gpu = here.gpu;
  if (known) {
    machine.gpu.peak_flop_per_s = known->gpu.peak_flop_per_s;
    machine.gpu.memory_bandwidth_bytes_per_s = known->gpu.memory_bandwidth_bytes_per_s;
    machine.gpu.tdp_w = known->gpu.tdp_w;
  }
  machine.gpu.transposes_8_bits = transposes_8_bits(here.generation);
  machine.gpu.compute_capability = here.generation / 10.0;
  machine.gpu.kernels = constants_of_engine(known);
  std::vector<std::string> measured;
  measure_alone(here, budget, watch, machine, measured);
  add_network(machine);
  add_links(here, known, machine);
  watch(0.9, "collectives");
  const std::optional<GpuRankRates> ranks =
      machine.gpus > 1 ? measure_gpu_ranks(options, machine.gpus) : std::nullopt;
  if (ranks) add_collectives(*ranks, known, machine);
  const int sharing = (machine.gpus + gpus - 1) / gpus;
  machine.gpu.memory_bytes /= sharing;
  machine.host.vcpus = usable_cores();
  machine.host.memory_bytes = physical_memory_bytes();
  machine.concurrent_streams = true;
  machine.calibration = Calibration::this_machine;
  add_sources(known, measured, ranks.has_value(), machine);
  return machine;
}

}  // namespace meshwright::tools
