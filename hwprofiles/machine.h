// Describes the hardware that a training job runs on: a machine (one host, or all hosts of an
// NVLink domain, with GPUs, links, network cards and prices) and a cluster of equal machines. The
// structs are plain data in the units that the names of fields end in. load.h reads machines, and
// topology.h turns a cluster into a graph.
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

namespace meshwright::hwprofiles {

enum class NvlinkKind : std::uint8_t { none, matrix, nvswitch };

struct Nvlink {
  NvlinkKind kind = NvlinkKind::none;
  int links_per_gpu = 0;
  double link_bandwidth_bytes_per_s = 0;        // of one link, per direction, nominal
  double efficiency = 1;                        // share of it that a large collective reaches
  EfficiencyCurve group;                        // share of `efficiency` against the group's ranks
  std::vector<std::vector<int>> links_between;  // for matrix: links of each pair of GPUs
  // A rank copies its own part of the buffer to its offset in the result, with the multiprocessors
  // that also send. This is the time per copied byte, relative to the time of sending one byte.
  double own_share = 0;
  // NCCL's protocol LL adds no latency to CollectiveLatency, and has at most this bandwidth. 0
  // means that LL is not used.
  double ll_bandwidth_bytes_per_s = 0;
  // NCCL's protocol LL128 begins `ll128_latency_s` later than LL and reaches this share of the
  // bandwidth. 0 means that LL128 is not used.
  double ll128_share = 0;
  double ll128_latency_s = 0;
  // NCCL's protocol Simple begins `simple_latency_s` later than LL. While its pipeline fills, each
  // step waits until the step before it has moved a rank's part, or `simple_fill_bytes` if the part
  // is larger.
  double simple_latency_s = 0;
  double simple_fill_bytes = 0;
  // Besides the host latency, an NVLS all-reduce inside a host, which the switch adds up, takes
  // nvls_latency_s + (b + min(b, nvls_ramp_bytes)) / (nvls_efficiency * peak) seconds, where b is
  // its bus bytes (sim/README.md) and peak a GPU's nominal NVLink bandwidth. The efficiency may
  // exceed 1. If it is 0, the machine has no NVLS.
  double nvls_efficiency = 0;
  double nvls_latency_s = 0;
  double nvls_ramp_bytes = 0;
  // The share of the bandwidth and the additional latency of sends between two ranks, single or in
  // an all-to-all, that are too long for LL. A share of 0 means that they behave as other
  // collectives do.
  double exchange_share = 0;
  double exchange_latency_s = 0;
};

// GPUs and network cards that are connected to one PCIe switch (or root port), by their index in
// the host.
struct PcieSwitch {
  std::vector<int> gpus;
  std::vector<int> nics;
  int numa = 0;
};

struct Pcie {
  double gpu_bandwidth_bytes_per_s = 0;  // GPU to switch, per direction, achieved
  // Switch to its processor socket, per direction. All GPUs and cards of the switch share it.
  double uplink_bandwidth_bytes_per_s = 0;
  double socket_bandwidth_bytes_per_s = 0;  // between two sockets, per direction
  bool peer_to_peer = true;  // false: data between GPUs without NVLink passes through host memory
  // For machines without NVLink: latency of NCCL's protocol Simple in addition to that of its
  // protocol LL, half of whose bytes are flags. 0 means that all collectives use Simple, and that
  // the profile's block `collectives` holds their whole latency.
  double simple_latency_s = 0;
  std::vector<PcieSwitch> switches;  // every GPU of the host appears in exactly one
};

struct Network {
  int nics = 0;
  double gbit_per_s_each = 0;
  double efficiency = 1;   // share of it that a large collective reaches
  bool efa = false;        // AWS's Elastic Fabric Adapter
  bool gpudirect = false;  // false: bytes pass through host memory
  // Bytes per second for each card that the GPUs of a host can sum in NCCL's tree algorithm, to
  // which NCCL gives few multiprocessors. 0 means that the tree keeps up with the card.
  double tree_bandwidth_bytes_per_s = 0;
  // Bus bandwidth that short collectives reach with NCCL's protocol LL, and additional time of each
  // step over the network with its protocol Simple. A bandwidth of 0 means that all collectives use
  // Simple.
  double ll_bandwidth_bytes_per_s = 0;
  double simple_step_latency_s = 0;
};

// Time that a collective takes in addition to the transfer: `latency_s` once, and `step_latency_s`
// for each round.
struct CollectiveLatency {
  double latency_s = 0;
  double step_latency_s = 0;
};

// Ranks of a CPU computer communicate through shared memory. The fields are the rate of one rank
// and the rate of all ranks together.
struct SharedMemory {
  double rank_bandwidth_bytes_per_s = 0;  // in an all-reduce, which works in place
  double total_bandwidth_bytes_per_s = 0;
  // Rate of one rank in an all-gather or a reduce-scatter, which write their results to another
  // buffer. 0 means `rank_bandwidth_bytes_per_s`.
  double copy_bandwidth_bytes_per_s = 0;
};

struct Host {
  int vcpus = 0;
  double memory_bytes = 0;
  double host_launch_us = 0;  // host time to issue one operation from the training framework
  // The part of `host_launch_us` that the driver takes for one launch. When a training script runs
  // without GPUs for a prediction (tools/stand_in), the script itself takes the rest.
  double driver_launch_us = 0;
};

// Device memory that libraries take in addition to the planned arena.
struct LibraryOverheads {
  double context_bytes = 0;
  double communicator_bytes = 0;  // buffers of all communicators of a rank
  double workspace_bytes = 0;     // workspace of BLAS
};

// The part of a GPU's memory that a training framework can use.
struct FrameworkMemory {
  // Memory that CUDA reports, without what the driver and error correction use.
  double capacity_bytes = 0;
  double context_bytes = 0;   // CUDA's context with all kernels of the framework
  double allocator_loss = 0;  // share of the allocator's memory that fits no request
};

// Ratio of measured to predicted step time of the published steps on GPUs of this kind: the 10th
// and the 90th percentile, for steps on one host and on several hosts.
struct Residuals {
  struct Interval {
    double low = 1, high = 1;
    int rows = 0;
  };
  std::optional<Interval> one_host, many_hosts;
};

// Says where the constants of a profile come from.
enum class Calibration : std::uint8_t {
  spec_sheet,    // nothing was measured
  evidence,      // fitted to published training steps
  this_machine,  // measured with this engine, by `meshwright calibrate`
  links          // links are fitted to published collectives, kernels are estimates
};
const std::vector<std::string>& calibration_names();
inline const std::string& name_of(Calibration calibration) {
  return calibration_names()[static_cast<std::size_t>(calibration)];
}

struct Machine {
  std::string name;
  std::vector<std::string> aliases;
  int gpus = 1;  // number of GPUs; for a CPU computer, the most processes
  Gpu gpu;
  Nvlink nvlink;
  Pcie pcie;
  Network network;
  CollectiveLatency host_latency;             // collectives inside a host
  CollectiveLatency network_latency;          // added if a collective spans machines
  std::optional<SharedMemory> shared_memory;  // CPU computers only
  Host host;
  LibraryOverheads overheads;
  std::optional<FrameworkMemory> framework;  // unset: not known
  Prices prices;                             // empty: not known
  std::optional<Residuals> residuals;        // unset: no step was published for such GPUs
  // Whether communication can run at the same time as kernels.
  bool concurrent_streams = true;
  Calibration calibration = Calibration::spec_sheet;
  std::vector<std::pair<std::string, std::string>>
      sources;  // block of the profile -> source of its numbers

  // Returns whether predicted steps are those of meshwright's engine. On other machines they are
  // those of training frameworks, as in the published measurements.
  bool runs_engine() const {
    return gpu.kind == DeviceKind::cpu || calibration == Calibration::this_machine;
  }
};

// Values of the network that a cluster has in place of its machine's. Unset values are the
// machine's.
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
  std::optional<Failures> failures = {};  // unset: nothing fails
  std::optional<Fabric> fabric = {};      // unset: the network between hosts never blocks

  int ranks() const { return hosts * processes_per_host; }
  int host_of(int rank) const { return rank / processes_per_host; }
  // Returns the device of one rank. A GPU has the memory that CUDA reports, if that is known and
  // less than the nominal one. The ranks of a CPU computer share its memory, its bandwidth and its
  // cores.
  Gpu device() const;
  Network network() const;                    // with the override applied
  CollectiveLatency network_latency() const;  // with the override applied
  Seconds host_launch() const {
    return {host_launch_us.value_or(machine.host.host_launch_us) * 1e-6};
  }
};

// Returns the price of all hosts together, in USD per hour, or none if the machine has no price for
// this choice.
std::optional<double> usd_per_hour(const Cluster& cluster, const PriceChoice& choice);

}  // namespace meshwright::hwprofiles
