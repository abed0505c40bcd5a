#include "sim/planner/clusters.h"

#include <algorithm>

#include "hwprofiles/load.h"
#include "hwprofiles/stacks.h"
#include "models/core/error.h"

namespace meshwright::sim {

namespace {

bool is_local(const std::string& name) { return name == "local" || name == "ml.local"; }

bool has_profile(const std::string& name) {
  const std::vector<std::string> known = list_machines();
  return std::find(known.begin(), known.end(), name) != known.end();
}

}  // namespace

Machine load_known_machine(const std::string& name) {
  if (is_local(name) && !has_profile("local"))
    throw InputError(
        "/cluster/machine: this computer has not been measured; run `meshwright calibrate`");
  return load_machine(name);
}

MachineFacts facts_of(const Machine& machine) {
  const Gpu& gpu = machine.gpu;
  MachineFacts facts;
  facts.is_cpu = gpu.kind == DeviceKind::cpu;
  facts.gpus = facts.is_cpu ? gpu.sm_count : machine.gpus;
  facts.has_bf16 = gpu.supports(Precision::bf16);
  facts.has_tf32 = gpu.supports(Precision::tf32);
  facts.has_fp8 = gpu.supports(Precision::fp8);
  facts.has_fp4 = gpu.supports(Precision::nvfp4);
  facts.has_flash3 = gpu.kernels.flash3_forward > 0 && gpu.kernels.flash3_backward > 0;
  facts.has_cudnn_attention = gpu.kernels.cudnn_forward > 0 && gpu.kernels.cudnn_backward > 0;
  facts.has_efa = machine.network.efa;
  facts.has_nvlink = machine.nvlink.kind != NvlinkKind::none;
  return facts;
}

MachineFacts machine_facts(const std::string& machine) {
  if (is_local(machine) && !has_profile("local")) {
    MachineFacts unknown_computer;
    unknown_computer.is_cpu = true;
    return unknown_computer;
  }
  return facts_of(load_machine(machine));
}

Cluster make_cluster(const ClusterRequest& request, const Machine& machine, int count) {
  Cluster cluster;
  cluster.machine = with_stack(machine, request.stack);
  cluster.hosts = count;
  const int all = machine.gpu.kind == DeviceKind::cpu ? 1 : machine.gpus;
  cluster.processes_per_host = request.processes_per_host > 0 ? request.processes_per_host : all;
  if (request.network) {
    NetworkOverride network;
    network.nics = request.network->nics;
    network.gbps_per_nic = request.network->gbps_per_nic;
    if (request.network->latency_us >= 0) network.latency_us = request.network->latency_us;
    cluster.network_override = network;
  }
  cluster.host_launch_us = request.host_launch_us;
  cluster.faults = request.faults;
  cluster.failures = request.failures;
  cluster.fabric = request.fabric;
  return cluster;
}

Cluster make_cluster(const ClusterRequest& request, const std::string& machine, int count) {
  return make_cluster(request, load_known_machine(machine), count);
}

std::vector<std::string> machines_of(const ClusterRequest& request) {
  if (!request.machines.empty()) return request.machines;
  std::vector<std::string> known = list_machines();
  std::erase(known, "local");
  return known;
}

std::vector<int> counts_of(const ClusterRequest& request) {
  if (!request.counts.empty()) return request.counts;
  std::vector<int> counts;
  for (int count = 1; count <= largest_automatic_count; count *= 2) counts.push_back(count);
  return counts;
}

}  // namespace meshwright::sim
