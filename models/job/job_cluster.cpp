#include <fmt/format.h>
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "models/core/error.h"
#include "models/job/sections.h"

namespace meshwright::job {

namespace {

constexpr int most_hosts = 1'000'000, most_nics = 1024;
constexpr std::size_t most_counts = 1000;  // each count is a search of its own

std::string without_ml(std::string machine) {
  return machine.starts_with("ml.") ? machine.substr(3) : machine;
}

// Reads `machine`: a name, "auto", or a list of names to choose from.
void read_machines(Fields& fields, Job& job) {
  ClusterRequest& cluster = job.cluster;
  if (fields.is_array("machine")) {
    cluster.machines = fields.required<std::vector<std::string>>("machine");
    if (cluster.machines.empty()) fields.fail("machine", "the list is empty; name a machine");
    if (cluster.machines.size() > 1) job.autos.insert("cluster.machine");
  } else if (fields.required<std::string>("machine") == "auto") {
    job.autos.insert("cluster.machine");
  } else {
    cluster.machines = {fields.required<std::string>("machine")};
  }
  for (std::string& machine : cluster.machines) machine = without_ml(machine);
}

void read_counts(Fields& fields, std::string_view key, Job& job) {
  ClusterRequest& cluster = job.cluster;
  cluster.counts = {1};
  if (!fields.has(key)) return;
  if (fields.is_array(key)) {
    cluster.counts = fields.required<std::vector<int>>(key);
    if (cluster.counts.empty()) fields.fail(key, "the list is empty; name a count");
    if (cluster.counts.size() > most_counts)
      fields.fail(key, fmt::format("{} counts are too many to search; name at most {}",
                                   cluster.counts.size(), most_counts));
    if (cluster.counts.size() > 1) job.autos.insert("cluster.count");
  } else if (fields.is_string(key) && fields.required<std::string>(key) == "auto") {
    cluster.counts.clear();
    job.autos.insert("cluster.count");
  } else {
    cluster.counts = {fields.required<int>(key)};
  }
  for (const int count : cluster.counts)
    if (count < 1 || count > most_hosts)
      fields.fail(key, fmt::format("{} machines are not possible; use 1 to {}", count, most_hosts));
}

double positive(Fields& fields, std::string_view key) {
  const double value = fields.required<double>(key);
  if (!(value > 0)) fields.fail(key, fmt::format("{} must be above 0", value));
  return value;
}

ClusterRequest::Network read_network(Fields fields) {
  ClusterRequest::Network network;
  network.nics = fields.required<int>("nics");
  if (network.nics < 1 || network.nics > most_nics)
    fields.fail("nics", fmt::format("{} is out of range; use 1 to {}", network.nics, most_nics));
  network.gbps_per_nic = positive(fields, "gbps_per_nic");
  if (fields.has("latency_us")) {
    network.latency_us = fields.required<double>("latency_us");
    if (network.latency_us < 0)
      fields.fail("latency_us", fmt::format("{} must be 0 or more", network.latency_us));
  }
  fields.done();
  return network;
}

constexpr int most_leaf_ports = 100'000;

Fabric read_fabric(Fields fields) {
  Fabric fabric;
  fabric.leaf_ports = fields.required<int>("leaf_ports");
  if (fabric.leaf_ports < 1 || fabric.leaf_ports > most_leaf_ports)
    fields.fail("leaf_ports", fmt::format("{} is out of range; use 1 to {}, the network cards that "
                                          "go to one leaf switch",
                                          fabric.leaf_ports, most_leaf_ports));
  take(fields, "oversubscription", fabric.oversubscription);
  if (!(fabric.oversubscription >= 1))
    fields.fail("oversubscription", fmt::format("{} is too small; 1 is a fabric that never blocks",
                                                fabric.oversubscription));
  take(fields, "rails", fabric.rails);
  take(fields, "in_network_reduction", fabric.in_network_reduction);
  fields.done();
  return fabric;
}

// Reads the network between the hosts, which is given in the job file or in a file of its own.
Fabric read_topology(Fields& fields, Job& job) {
  if (fields.is_object("topology")) return read_fabric(fields.object("topology"));
  const std::string path = resolve(job, fields.required<std::string>("topology"));
  if (!std::filesystem::is_regular_file(path))
    fields.fail("topology", fmt::format("'{}' is no file; give the switches' sizes, or the file "
                                        "that has them",
                                        path));
  job.settings_files.push_back(path);
  return read_fabric(read_json_file(path));
}

// Reads the name of a software stack. Stacks are named by years, which --set reads as numbers.
std::string read_stack(Fields& fields) {
  if (fields.raw("stack").is_number_integer()) return fields.raw("stack").dump();
  const auto stack = fields.required<std::string>("stack");
  if (stack.empty())
    fields.fail("stack", "is empty; take a name of `meshwright list stacks`, or leave it out");
  return stack;
}

void read_cluster_object(Fields fields, Job& job) {
  read_machines(fields, job);
  read_counts(fields, "count", job);
  if (fields.has("processes_per_host")) {
    take(fields, "processes_per_host", job.cluster.processes_per_host);
    if (job.cluster.processes_per_host < 1)
      fields.fail("processes_per_host",
                  fmt::format("{} is too small; use 1 or more", job.cluster.processes_per_host));
  }
  if (fields.has("network")) job.cluster.network = read_network(fields.object("network"));
  if (fields.has("host_launch_us")) job.cluster.host_launch_us = positive(fields, "host_launch_us");
  if (fields.has("topology")) job.cluster.fabric = read_topology(fields, job);
  if (fields.has("stack")) job.cluster.stack = read_stack(fields);
  fields.done();
}

}  // namespace

ChosenCluster read_cluster(Fields& fields, Job& job, const MachineLookup& lookup) {
  const bool instances = fields.has("instance_type") || fields.has("instance_count");
  std::string pointer = "cluster/machine";
  if (fields.has("cluster")) {
    if (instances)
      fields.fail(fields.has("instance_type") ? "instance_type" : "instance_count",
                  "given beside 'cluster'; keep one of them");
    read_cluster_object(fields.object("cluster"), job);
  } else if (instances) {
    job.cluster.machines = {without_ml(fields.required<std::string>("instance_type"))};
    read_counts(fields, "instance_count", job);
    pointer = "instance_type";
  } else {
    fields.fail("cluster", "missing; give {\"machine\": ..., \"count\": ...}, or instance_type");
  }
  ChosenCluster chosen;
  for (const std::string& machine : job.cluster.machines) {
    try {
      chosen.facts = lookup(machine);
    } catch (const InputError& error) {
      fields.fail(pointer, error.what());
    }
  }
  if (job.cluster.machines.size() == 1 && job.cluster.counts.size() == 1) {
    chosen.machine = job.cluster.machines.front();
    chosen.hosts = job.cluster.counts.front();
  }
  return chosen;
}

void check_processes(const Job& job, const std::string& pointer, const MachineLookup& lookup) {
  const int processes = job.cluster.processes_per_host;
  for (const std::string& machine : job.cluster.machines) {
    const MachineFacts facts = lookup(machine);
    if (facts.is_cpu && processes > most_local_processes)
      throw InputError(
          in_file(job.file, broken(pointer, "{} are too many processes for '{}'; use 1 to {}",
                                   processes, machine, most_local_processes)));
    if (!facts.is_cpu && processes > facts.gpus)
      throw InputError(in_file(
          job.file,
          broken(pointer, "{} exceeds the {} GPU{} of {}: one process drives one GPU; use 1 to {}",
                 processes, facts.gpus, facts.gpus == 1 ? "" : "s", machine, facts.gpus)));
  }
}

}  // namespace meshwright::job
