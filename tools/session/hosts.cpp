#include "tools/session/hosts.h"

#include <fmt/format.h>

#include <algorithm>

#include "exec/launch/exit_codes.h"
#include "exec/launch/stop.h"
#include "hwprofiles/load.h"
#include "models/core/error.h"

namespace meshwright::session {

namespace {

constexpr double patience_s = 3600;  // how long other hosts wait for mpirun, in seconds

// Sets which network features the hosts have. Without an instance, the network is that of the
// chosen cluster's machine. For an instance that is not a known machine, nothing is assumed.
void add_network(RemoteHosts& remote, const Run& run, const std::string& instance) {
  Network network;
  if (instance.empty()) {
    network = run.chosen.cluster.machine.network;
  } else if (const auto machine = machine_if_known(instance)) {
    network = machine->network;
  }
  remote.efa = network.efa;
  remote.rdma = network.efa && network.gpudirect;
}

// Returns the hosts, and the file or variable that names them.
std::pair<std::vector<RunHost>, std::string> named_hosts(const std::string& hostfile,
                                                         const SageMaker& sm, int processes) {
  if (!hostfile.empty()) return {read_hostfile(hostfile), hostfile};
  std::vector<RunHost> hosts;
  for (const std::string& name : sm.hosts) hosts.push_back({name, processes});
  return {hosts, "SM_HOSTS"};
}

void check_hosts(const Run& run, const std::vector<RunHost>& hosts, const std::string& where) {
  const Cluster& cluster = run.chosen.cluster;
  if (static_cast<int>(hosts.size()) != cluster.hosts)
    throw InputError(fmt::format("{}: /cluster/count: {}, but {} names {} host{}; make them equal",
                                 run.job.file, cluster.hosts, where, hosts.size(),
                                 hosts.size() == 1 ? "" : "s"));
  for (const RunHost& host : hosts)
    if (host.slots < cluster.processes_per_host)
      throw InputError(fmt::format(
          "{}: {} has {} slot{}, the plan runs {} processes on each host; "
          "raise slots= or lower cluster.processes_per_host",
          where, host.name, host.slots, host.slots == 1 ? "" : "s", cluster.processes_per_host));
}

void check_gpus(const Run& run, const SageMaker& sm) {
  const int processes = run.chosen.cluster.processes_per_host;
  if (sm.gpus > 0 && processes > sm.gpus)
    throw InputError(fmt::format(
        "{}: /cluster/processes_per_host: {} exceeds the {} GPU{} of SM_NUM_GPUS: one process "
        "drives one GPU",
        run.job.file, processes, sm.gpus, sm.gpus == 1 ? "" : "s"));
}

}  // namespace

std::optional<RemoteHosts> remote_hosts(const TrainRequest& how, const SageMaker& sm,
                                        const Run& run) {
  check_gpus(run, sm);
  if (how.hostfile.empty() && sm.hosts.size() <= 1) return std::nullopt;
  const int processes = run.chosen.cluster.processes_per_host;
  RemoteHosts remote;
  std::string where;
  std::tie(remote.hosts, where) = named_hosts(how.hostfile, sm, processes);
  check_hosts(run, remote.hosts, where);
  for (RunHost& host : remote.hosts) host.slots = processes;
  remote.interface = sm.interface;
  add_network(remote, run, sm.instance);
  remote.model_parallel = sm.model_parallel;
  // Keeps hwloc from printing errors on every host where /sys is not mounted, as in a container.
  remote.variables.emplace_back("HWLOC_HIDE_ERRORS=2");
  if (how.threads) remote.variables.push_back("OMP_NUM_THREADS=" + std::to_string(*how.threads));
  return remote;
}

void wait_for_hosts(const RemoteHosts& remote, const std::vector<std::string>& mpi_options,
                    double seconds, const Watch& watch) {
  if (std::ranges::find(mpi_options, "plm_rsh_agent") != mpi_options.end()) return;
  std::vector<std::string> others;
  for (std::size_t i = 1; i < remote.hosts.size(); ++i) others.push_back(remote.hosts[i].name);
  const std::vector<std::string> missing = wait_for_ssh(others, seconds, [&] {
    watch.note(fmt::format("waiting for {}: SSH (port 22), at most {:g} s", list_of(others, "and"),
                           seconds));
  });
  if (!missing.empty())
    throw RunError(fmt::format("{} cannot be reached over SSH (port 22) after {:g} s",
                               list_of(missing, "and"), seconds));
}

int wait_as_other_host(const SageMaker& container, const Watch& watch) {
  watch.note(container.current + " waits while " + container.hosts.front() + " runs the job");
  watch_for_stop();
  if (wait_for_daemon(patience_s, stop_requested)) return done;
  if (stop_requested()) return stopped;
  throw RunError(fmt::format("mpirun of {} did not come to {} within {} s", container.hosts.front(),
                             container.current, patience_s));
}

}  // namespace meshwright::session
