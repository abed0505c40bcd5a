#include <fmt/format.h>
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "hwprofiles/machine_words.h"
#include "models/core/error.h"
#include "models/job/keys.h"
#include "models/job/sections.h"

namespace meshwright::job {

using nlohmann::json;

namespace {

constexpr int most_hosts = 1'000'000;
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

constexpr int most_leaf_ports = 100'000;

void read_latency(Fields& fields, ClusterRequest::Network& network) {
  network.latency_us = fields.required<double>("latency_us");
  if (network.latency_us < 0)
    fields.fail("latency_us", fmt::format("{} must be 0 or more", network.latency_us));
}

void check_fabric(Fields& fields, Fabric& fabric) {
  if (fabric.leaf_ports < 1 || fabric.leaf_ports > most_leaf_ports)
    fields.fail("leaf_ports", fmt::format("{} is out of range; use 1 to {}, the network cards that "
                                          "go to one leaf switch",
                                          fabric.leaf_ports, most_leaf_ports));
  if (!(fabric.oversubscription >= 1))
    fields.fail("oversubscription", fmt::format("{} is too small; 1 is a fabric that never blocks",
                                                fabric.oversubscription));
}

Fields fabric_file(Fields& fields, Job& job) {
  const std::string path = resolve(job, fields.required<std::string>("topology"));
  if (!std::filesystem::is_regular_file(path))
    fields.fail("topology", fmt::format("'{}' is no file; give the switches' sizes, or the file "
                                        "that has them",
                                        path));
  job.settings_files.push_back(path);
  return read_json_file(path);
}

Keys network_keys(ClusterRequest::Network& network) {
  using enum How;
  return {
      {"nics", &network.nics, by_reader({.low = 1, .high = 1024}), required, "",
       "network cards of a host"},
      {"gbps_per_nic", &network.gbps_per_nic, by_reader(above_zero), required, "",
       "Gbit/s of a card"},
      {"latency_us",
       code(
           "number", {}, [&network](Fields& fields, Job&) { read_latency(fields, network); },
           [&network] { return network.latency_us < 0 ? json(nullptr) : json(network.latency_us); },
           R"({"type": "number", "minimum": 0})"),
       any, plain, "the machine's", "microseconds from host to host"}};
}

Keys fabric_keys(Fabric& fabric) {
  using enum How;
  return {
      {"leaf_ports",
       &fabric.leaf_ports,
       {.low = 1, .high = most_leaf_ports},
       required,
       "",
       "network cards of a leaf switch; with `rails` hosts of a pod"},
      {"oversubscription", &fabric.oversubscription, at_least_one, plain, "",
       "what hosts can send into a leaf divided by what the leaf can send to the spine"},
      {"rails", &fabric.rails, any, plain, "", "card k of every host goes to leaf k of its pod"},
      {"in_network_reduction", &fabric.in_network_reduction, any, plain, "",
       "switches sum the all-reduces between hosts"}};
}

// Reads the name of a software stack. Stacks are named by years, which --set reads as numbers.
void read_stack(Fields& fields, Job& job) {
  std::string& stack = job.cluster.stack;
  const bool is_number = fields.raw("stack").is_number_integer();
  stack = is_number ? fields.raw("stack").dump() : fields.required<std::string>("stack");
  if (stack.empty())
    fields.fail("stack", "is empty; take a name of `meshwright list stacks`, or leave it out");
}

template <class T>
json one_or_list(const std::vector<T>& values) {
  return values.size() == 1 ? json(values.front()) : json(values);
}

}  // namespace

Keys cluster_keys(ClusterRequest& cluster) {
  using enum How;
  Object topology = object(cluster.fabric, fabric_keys, check_fabric);
  topology.from_file = fabric_file;
  return {
      {"machine",
       code(
           "string, list or `\"auto\"`", {}, read_machines,
           [&cluster] { return one_or_list(cluster.machines); },
           R"({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})"),
       any, required, "",
       "a machine of `meshwright list machines`; a group (`aws`, `p5`, `dgx`); GPUs and how many, "
       "which sets `count` (`8xH100`); or `local`: this computer, from the profile that "
       "`calibrate` wrote (`$XDG_DATA_HOME/meshwright/local.json`, or `--profile FILE`), else "
       "measured"},
      {"count",
       code(
           "integer, list or `\"auto\"`", {},
           [](Fields& fields, Job& job) { read_counts(fields, "count", job); },
           [&cluster] { return one_or_list(cluster.counts); },
           R"({"anyOf": [{"type": "integer", "minimum": 1}, {"const": "auto"},
                {"type": "array", "items": {"type": "integer", "minimum": 1}}]})"),
       any, plain, "1", "hosts; a list names at most 1,000; `local` needs `network` above 1"},
      {"processes_per_host", &cluster.processes_per_host, by_reader(at_least_one), if_set,
       "all GPUs; on `local` as many as the degrees need, else 1",
       "at most the GPUs; on `local` 1 to 64, with one warning above the cores"},
      {"network", object(cluster.network, network_keys), any, plain, "the machine's",
       "instead of the machine's network; `nics` 1 to 1024"},
      {"topology", topology, any, plain, "never blocks",
       "the switches between the hosts, see below"},
      {"host_launch_us", &cluster.host_launch_us, by_reader(above_zero), plain, "the machine's",
       "time to launch a kernel"},
      {"stack",
       code(
           "a name of `meshwright list stacks`", {}, read_stack,
           [&cluster] { return cluster.stack.empty() ? json(nullptr) : json(cluster.stack); },
           R"({"type": ["string", "integer"]})"),
       any, plain, "the newest",
       "the generation of software (driver, CUDA, framework) that predictions are for: the same "
       "plan got faster from year to year on one kind of GPU. Runs here are not changed by it"}};
}

// Replaces words for machines (machines_meant()) by the machines' names, and takes the number of
// hosts from the words if they say it. Names that `lookup` knows stay. Throws InputError for words
// that mean no machine, and if the number of hosts is given twice or for one of several machines.
void take_machine_words(Job& job, const MachineLookup& lookup, bool counts_hosts) {
  std::vector<std::string> names;
  for (const std::string& word : job.cluster.machines) {
    std::string unknown;
    try {
      lookup(word);
    } catch (const InputError& error) {
      unknown = error.what();
    }
    if (unknown.empty()) {
      names.push_back(word);
      continue;
    }
    const MachineWords meant = machines_meant(word);
    if (meant.machines.empty()) throw InputError(unknown);
    names.insert(names.end(), meant.machines.begin(), meant.machines.end());
    if (!meant.note.empty()) job.notes.push_back(meant.note);
    if (meant.hosts == 0) continue;
    if (counts_hosts || job.cluster.machines.size() > 1)
      throw InputError(
          counts_hosts
              ? fmt::format("'{}' says how many hosts, and so does the count; keep one of them",
                            word)
              : fmt::format("'{}' says how many hosts, which only a single machine may", word));
    job.cluster.counts = {meant.hosts};
    if (job.cluster.processes_per_host == 0)
      job.cluster.processes_per_host = meant.processes_per_host;
  }
  job.cluster.machines = std::move(names);
  if (job.cluster.machines.size() > 1) job.autos.insert("cluster.machine");
}

ChosenCluster read_cluster(Fields& fields, Job& job, const MachineLookup& lookup) {
  const bool instances = fields.has("instance_type") || fields.has("instance_count");
  std::string pointer = "cluster/machine";
  job.cluster.counts = {1};
  if (fields.has("cluster")) {
    if (instances)
      fields.fail(fields.has("instance_type") ? "instance_type" : "instance_count",
                  "given beside 'cluster'; keep one of them");
    Fields cluster = fields.object("cluster");
    read_keys(cluster, cluster_keys(job.cluster), job);
    cluster.done();
  } else if (instances) {
    job.cluster.machines = {without_ml(fields.required<std::string>("instance_type"))};
    if (fields.has("instance_count")) read_counts(fields, "instance_count", job);
    pointer = "instance_type";
  } else {
    fields.fail("cluster", "missing; give {\"machine\": ..., \"count\": ...}, or instance_type");
  }
  const bool counts_hosts =
      instances ? fields.has("instance_count") : fields.object("cluster").has("count");
  try {
    take_machine_words(job, lookup, counts_hosts);
  } catch (const InputError& error) {
    fields.fail(pointer, error.what());
  }
  ChosenCluster chosen;
  for (const std::string& machine : job.cluster.machines) chosen.facts = lookup(machine);
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
