// What a training job runs on: a machine (one host with its GPUs, links, network cards and price)
// and a cluster of equal machines. Plain data in SI units; load.h reads it, topology.h turns it
// into a graph.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hwprofiles/fabric.h"
#include "hwprofiles/failures.h"
#include "hwprofiles/faults.h"
#include "hwprofiles/gpu.h"
#include "hwprofiles/prices.h"
#include "models/core/units.h"

namespace meshwright {

enum class NvlinkKind : std::uint8_t { none, matrix, nvswitch };

struct Nvlink {
  NvlinkKind kind = NvlinkKind::none;
  int links_per_gpu = 0;
  double link_bandwidth_bytes_per_s = 0;        // of one link, per direction, on paper
  double efficiency = 1;                        // what a collective reaches of it
  EfficiencyCurve group;                        // share of that against the ranks of the group
  std::vector<std::vector<int>> links_between;  // matrix: number of links of each pair of GPUs
  // A rank copies its own part of the buffer to its place in the result, through the
  // multiprocessors that also send: time per byte as a share of that of sending one.
  double own_share = 0;
  // NCCL's protocols. LL: no other latency than a collective's own, and never more than this
  // bandwidth; 0: all go by Simple.
  double ll_bandwidth_bytes_per_s = 0;
  // LL128: begins later, and reaches this share of the bandwidth. 0: it is not used.
  double ll128_share = 0;
  double ll128_latency_s = 0;
  // Simple: begins later, and while its pipeline fills each step waits for the one before it to
  // move a rank's part, but no more than this.
  double simple_latency_s = 0;
  double simple_fill_bytes = 0;
  // All-reduces that the switch sums up (NVLS): bus bandwidth as a share of that on paper, which
  // may exceed 1; how much later they begin; and of how many bytes each takes twice as long until
  // the pipeline is full. 0: it does not.
  double nvls_efficiency = 0;
  double nvls_latency_s = 0;
  double nvls_ramp_bytes = 0;
  // Sends between two ranks, alone or all to all, longer than LL's: share of the bandwidth, and how
  // much later they begin. 0: as the others.
  double exchange_share = 0;
  double exchange_latency_s = 0;
};

// GPUs and network cards that hang below one PCIe switch (or root port).
struct PcieSwitch {
  std::vector<int> gpus;
  std::vector<int> nics;
  int numa = 0;
};

struct Pcie {
  double gpu_bandwidth_bytes_per_s = 0;  // GPU to its switch, per direction, achieved
  double uplink_bandwidth_bytes_per_s =
      0;  // switch to its processor socket, shared by what hangs below
  double socket_bandwidth_bytes_per_s = 0;  // between two sockets, per direction
  bool peer_to_peer = true;                 // false: GPUs without NVLink talk through host memory
  // Without NVLink: how much later NCCL's Simple begins than LL, half of whose bytes are flags; 0:
  // all collectives go by Simple, and the latency of all is in `collectives`.
  double simple_latency_s = 0;
  std::vector<PcieSwitch> switches;  // every GPU of the host appears in exactly one
};

struct Network {
  int nics = 0;
  double gbit_per_s_each = 0;
  double efficiency = 1;   // what a collective reaches of it
  bool efa = false;        // AWS's Elastic Fabric Adapter
  bool gpudirect = false;  // false: bytes pass through host memory
  // What the GPUs of a host can sum up in a tree for each card: NCCL gives it few multiprocessors.
  // 0: as much as the card carries.
  double tree_bandwidth_bytes_per_s = 0;
  // Bus bandwidth that short collectives reach with NCCL's LL, and how much longer a step over the
  // network takes with Simple. 0: the same protocol for all.
  double ll_bandwidth_bytes_per_s = 0;
  double simple_step_latency_s = 0;
};

// Time that a collective takes beside the wire: `latency_s` once, `step_latency_s` for each round.
struct CollectiveLatency {
  double latency_s = 0;
  double step_latency_s = 0;
};

// CPU computers: ranks talk through shared memory; one rank's rate, and that of all together.
struct SharedMemory {
  double rank_bandwidth_bytes_per_s = 0;  // in an all-reduce, which works in place
  double total_bandwidth_bytes_per_s = 0;
  // Of one rank in an all-gather or a reduce-scatter, whose results lie elsewhere; 0: the same.
  double copy_bandwidth_bytes_per_s = 0;
};

struct Host {
  int vcpus = 0;
  double memory_bytes = 0;
  double host_launch_us = 0;  // host time to issue one operation from the training framework
};

// Device memory that libraries take beside the planned arena.
struct LibraryOverheads {
  double context_bytes = 0;
  double communicator_bytes = 0;  // buffers of all communicators of a rank
  double workspace_bytes = 0;     // BLAS
};

// What a training framework finds of a GPU's memory.
struct FrameworkMemory {
  double capacity_bytes =
      0;                     // that CUDA reports: without what the driver and error correction keep
  double context_bytes = 0;  // CUDA's context with all kernels of the framework
  double allocator_loss = 0;  // share of what its allocator holds that fits no request
};

// Measured ÷ predicted step time of the published steps on GPUs of this kind: the 10th and the 90th
// percentile. Of steps on one host and on several.
struct Residuals {
  struct Interval {
    double low = 1, high = 1;
    int rows = 0;
  };
  std::optional<Interval> one_host, many_hosts;
};

// Where the constants of a profile are from.
enum class Calibration : std::uint8_t {
  spec_sheet,
  evidence,      // published steps
  this_machine,  // measured with this engine, by `meshwright calibrate`
  links          // links: published collectives; kernels: spec sheets
};
const std::vector<std::string>& calibration_names();
inline const std::string& name_of(Calibration calibration) {
  return calibration_names()[static_cast<std::size_t>(calibration)];
}

struct Machine {
  std::string name;
  std::vector<std::string> aliases;
  int gpus = 1;  // per host; for a CPU computer the largest number of processes
  Gpu gpu;
  Nvlink nvlink;
  Pcie pcie;
  Network network;
  CollectiveLatency host_latency;             // collectives inside a host
  CollectiveLatency network_latency;          // what crossing hosts adds
  std::optional<SharedMemory> shared_memory;  // CPU computers only
  Host host;
  LibraryOverheads overheads;
  std::optional<FrameworkMemory> framework;  // none: not known
  Prices prices;                             // of the price list; none: not known
  std::optional<Residuals> residuals;        // none: no step was published
  bool concurrent_streams = true;
  Calibration calibration = Calibration::spec_sheet;
  std::vector<std::pair<std::string, std::string>>
      sources;  // block of the profile -> where it is from

  // Whether steps are the engine's. Else they are those of the training frameworks whose published
  // measurements made the profile.
  bool runs_engine() const {
    return gpu.kind == DeviceKind::cpu || calibration == Calibration::this_machine;
  }
};

// Where a cluster's network differs from its machine's own.
struct NetworkOverride {
  std::optional<int> nics;
  std::optional<double> gbps_per_nic;
  std::optional<double> latency_us;
};

struct Cluster {
  Machine machine;
  int hosts = 1;
  int processes_per_host = 1;
  std::optional<NetworkOverride> network_override;
  std::optional<double> host_launch_us;
  Faults faults = {};
  std::optional<Failures> failures = {};  // none: nothing fails
  std::optional<Fabric> fabric = {};      // none: the network between the hosts never blocks

  int ranks() const { return hosts * processes_per_host; }
  int host_of(int rank) const { return rank / processes_per_host; }
  // What one rank has: of a GPU's memory what CUDA reports, where that is known; on a CPU computer
  // ranks share cores and memory.
  Gpu device() const;
  Network network() const;                    // with the override applied
  CollectiveLatency network_latency() const;  // with the override applied
  Seconds host_launch() const {
    return {host_launch_us.value_or(machine.host.host_launch_us) * 1e-6};
  }
};

// Of all hosts together. None where the machine has no such price.
std::optional<double> usd_per_hour(const Cluster& cluster, const PriceChoice& choice);

}  // namespace meshwright
