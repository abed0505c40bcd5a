// Makes mpirun's command line, as a list of words.
#include <algorithm>

#include "exec/launch/mpirun.h"

namespace meshwright::exec {

namespace {

using Words = std::vector<std::string>;

// Returns `extra` with `-x NCCL_DEBUG=X` instead of each `--NCCL_DEBUG X`, which is SageMaker's
// spelling.
Words without_pseudo_options(const Words& extra) {
  Words words;
  for (std::size_t i = 0; i < extra.size(); ++i) {
    if (extra[i] != "--NCCL_DEBUG" || i + 1 == extra.size()) {
      words.push_back(extra[i]);
      continue;
    }
    words.insert(words.end(), {"-x", "NCCL_DEBUG=" + extra[++i]});
  }
  return words;
}

// Returns whether `extra` sets the parameter, flag or variable `name`. Open MPI rejects a parameter
// that is given twice.
bool sets(const Words& extra, const std::string& name) {
  return std::ranges::any_of(
      extra, [&](const std::string& word) { return word == name || word.starts_with(name + "="); });
}

class RemoteCommand {
 public:
  RemoteCommand(const MpirunOptions& options, const Words& extra)
      : remote_(*options.remote), extra_(extra) {
    std::string list;
    for (const RunHost& host : remote_.hosts)
      list += (list.empty() ? "" : ",") + host.name +
              (host.slots == 1 ? "" : ":" + std::to_string(host.slots));
    words_ = {"mpirun", "--host", list, "-np", std::to_string(options.ranks)};
    if (options.is_root) words_.emplace_back("--allow-run-as-root");
    add_flags();
    words_.insert(words_.end(), extra.begin(), extra.end());
    add_network();
    for (const std::string& variable : remote_.variables) add_variable(variable);
  }
  const Words& words() const { return words_; }

 private:
  // Adds the flags that the containers give, in their order. It leaves out --display-map and
  // --tag-output, which would be mixed into what the ranks write to standard output.
  void add_flags() {
    if (!remote_.interface.empty()) {
      add_parameter("btl_tcp_if_include", remote_.interface);
      add_parameter("oob_tcp_if_include", remote_.interface);
    }
    add_parameter("plm_rsh_no_tree_spawn", "1");
    if (!sets(extra_, "-bind-to") && !sets(extra_, "--bind-to"))
      words_.insert(words_.end(), {"-bind-to", "none"});
    words_.insert(words_.end(),
                  {"-map-by", "slot"});  // global rank = host * processes + local rank
    add_parameter("pml", "ob1");
    add_parameter("btl", "^openib");
    add_parameter("orte_abort_on_non_zero_status", "1");
    add_parameter("btl_vader_single_copy_mechanism", "none");
    // The containers do not set this parameter. Over one connection, Open MPI moves large messages
    // in one direction at a time, which takes twice as long if two ranks exchange them.
    add_parameter("btl_tcp_links", "2");
    add_variable("NCCL_MIN_NRINGS=4");
    if (!remote_.interface.empty()) add_variable("NCCL_SOCKET_IFNAME=" + remote_.interface);
    add_variable("NCCL_DEBUG=INFO");
    add_variable("NCCL_DEBUG_FILE=/dev/stderr");  // not to the ranks' standard output
  }
  void add_network() {
    if (remote_.efa) add_variable("FI_PROVIDER=efa");
    if (remote_.rdma) add_variable("FI_EFA_USE_DEVICE_RDMA=1");
    if (remote_.efa || remote_.model_parallel) add_variable("NCCL_PROTO=simple");
  }
  void add_parameter(const std::string& name, const std::string& value) {
    if (!sets(extra_, name)) words_.insert(words_.end(), {"-mca", name, value});
  }
  void add_variable(const std::string& variable) {
    if (!sets(extra_, variable.substr(0, variable.find('='))))
      words_.insert(words_.end(), {"-x", variable});
  }

  const RemoteHosts& remote_;
  const Words& extra_;
  Words words_;
};

Words local_command(const MpirunOptions& options, const Words& extra) {
  // Each hardware thread of a core takes a rank. Ranks are not bound, because binding would pin all
  // threads of a rank to one core.
  Words command{"mpirun",    "-n",  std::to_string(options.ranks), "--use-hwthread-cpus",
                "--bind-to", "none"};
  // The ranks talk over shared memory and the loopback interface only, so that nobody else can
  // connect to them.
  const auto add_parameter = [&](const char* name, const std::string& value) {
    if (!sets(extra, name)) command.insert(command.end(), {"--mca", name, value});
  };
  add_parameter("btl", "self,vader");
  add_parameter("oob_tcp_if_include", "lo");
  if (!options.folder.empty()) {
    add_parameter("orte_tmpdir_base", options.folder);
    add_parameter("btl_vader_backing_directory", options.folder);
  }
  if (options.ranks > options.cores)
    command.insert(command.end(), {"--oversubscribe", "--mca", "mpi_yield_when_idle", "1"});
  if (options.is_root) command.emplace_back("--allow-run-as-root");
  command.insert(command.end(), extra.begin(), extra.end());
  return command;
}

}  // namespace

std::vector<std::string> hosts_of_ranks(const MpirunOptions& options) {
  if (!options.remote) return std::vector<std::string>(options.ranks);
  std::vector<std::string> hosts;
  for (const RunHost& host : options.remote->hosts)
    hosts.insert(hosts.end(), host.slots, host.name);
  return hosts;
}

std::vector<std::string> mpirun_command(const MpirunOptions& options,
                                        std::span<const std::string> program) {
  const Words extra = without_pseudo_options(options.extra);
  Words command =
      options.remote ? RemoteCommand(options, extra).words() : local_command(options, extra);
  command.insert(command.end(), program.begin(), program.end());
  return command;
}

}  // namespace meshwright::exec
