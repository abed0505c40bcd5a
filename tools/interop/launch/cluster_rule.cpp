#include "tools/interop/launch/cluster_rule.h"

#include <algorithm>
#include <optional>
#include <set>

#include "models/core/error.h"

namespace meshwright::interop {

namespace {

using Count = std::optional<std::int64_t>;

constexpr const char* names[] = {"sbatch.nodes",
                                 "sbatch.ntasks",
                                 "sbatch.ntasks-per-node",
                                 "sbatch.gpus-per-node",
                                 "sbatch.gpus",
                                 "sbatch.gres",
                                 "srun.nodes",
                                 "srun.ntasks",
                                 "srun.ntasks-per-node",
                                 "srun.gpus-per-node",
                                 "srun.gpus",
                                 "srun.gres",
                                 "flux.nodes",
                                 "flux.ntasks",
                                 "aprun.ntasks",
                                 "aprun.ntasks-per-node",
                                 "jsrun.nrs",
                                 "jsrun.rs-per-host",
                                 "jsrun.tasks-per-rs",
                                 "mpirun.np",
                                 "mpirun.npernode",
                                 "mpirun.map-by",
                                 "mpirun.host",
                                 "mpirun.hostfile",
                                 "torchrun.nnodes",
                                 "torchrun.nproc-per-node",
                                 "deepspeed.num-nodes",
                                 "deepspeed.num-gpus",
                                 "deepspeed.hostfile",
                                 "deepspeed.include",
                                 "deepspeed.exclude",
                                 "accelerate.num-machines",
                                 "accelerate.num-processes",
                                 "hosts.count",
                                 "hosts.slots"};

bool is_open(const std::string& text) { return text.find_first_of("$`") != std::string::npos; }

std::vector<std::string> split(const std::string& text, char by) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= text.size(); ++i)
    if (i == text.size() || text[i] == by) {
      if (i > begin) parts.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    }
  return parts;
}

// Gathers the numbers of hosts and processes from the options. `has_agent` means that torchrun,
// deepspeed or accelerate starts the ranks on each host, so the tasks of the outer launcher are not
// ranks.
class ClusterSizes {
 public:
  ClusterSizes(Settings& from, JobDraft& to) : from_(from), to_(to) {}

  void read() {
    const bool has_agent = says("torchrun.nnodes") || says("torchrun.nproc-per-node") ||
                           says("deepspeed.") || says("accelerate.");
    for (const std::string before : {"sbatch.", "srun.", "flux.", "aprun."})
      read_queue(before, has_agent);
    read_jsrun(has_agent);
    read_mpirun(has_agent);
    read_torchrun();
    read_deepspeed();
    read_accelerate();
    if (hosts_)
      to_.set("cluster.count", *hosts_);
    else if (!open_hosts_.empty())
      to_.ask("cluster.count", open_hosts_);
    if (each_)
      to_.set("cluster.processes_per_host", *each_);
    else if (!open_each_.empty() && !to_.has("cluster.processes_per_host"))
      to_.remark(open_each_ + " is not known: one process for each GPU of the machine is taken");
    for (const char* name : names) from_.read(name);
  }

 private:
  bool says(std::string_view name) const {
    if (!name.ends_with('.')) return from_.has(name);
    return std::ranges::any_of(from_.all(),
                               [&](const Setting& each) { return each.name.starts_with(name); });
  }

  std::string text_of(const std::string& name) {
    const auto word = from_.has(name) ? from_.word(name) : std::nullopt;
    return word.value_or("");
  }

  // Returns a count, or nothing if the option is absent, is a range or contains a variable of the
  // shell. In the last two cases `open` is set to the option and its value.
  Count count(const std::string& name, std::string& open) {
    const std::string text = text_of(name);
    if (text.empty()) return {};
    if (is_open(text)) {
      open = from_.spelled(name) + " " + text;
      return {};
    }
    if (text.find_first_of(":-") != std::string::npos && text[0] != '-') {  // a range: 1:4, 2-4
      open = from_.spelled(name) + " " + text + " (a range)";
      return {};
    }
    open.clear();
    return from_.count(name);
  }
  Count hosts(const std::string& name) { return count(name, open_hosts_); }
  Count each(const std::string& name) {
    const std::string text = text_of(name);
    if (text == "gpu" || text == "auto" || text == "cpu") return {};  // one process per device
    return count(name, open_each_);
  }

  // Returns the number of GPUs in `8`, `a100:8` or `gpu:a100:8`, or nothing if the option gives
  // none.
  Count gpus(const std::string& name) {
    const std::string text = text_of(name);
    if (text.empty() || is_open(text)) return {};
    for (const std::string& part : split(text, ',')) {
      const std::string number = part.substr(part.rfind(':') + 1);
      if (name.ends_with("gres") && !part.starts_with("gpu")) continue;
      if (!number.empty() && number.size() < 6 &&
          number.find_first_not_of("0123456789") == std::string::npos && std::stoi(number) > 0)
        return std::stoi(number);
    }
    return {};
  }

  void read_queue(const std::string& before, bool has_agent) {
    if (const Count nodes = hosts(before + "nodes")) hosts_ = nodes;
    const Count tasks = each(before + "ntasks"), per_node = each(before + "ntasks-per-node");
    Count on_node = gpus(before + "gpus-per-node");
    if (!on_node) on_node = gpus(before + "gres");
    if (const Count all = gpus(before + "gpus");
        all && !on_node && hosts_.value_or(1) > 0 && *all % hosts_.value_or(1) == 0)
      on_node = *all / hosts_.value_or(1);
    if (on_node) each_ = on_node;
    if (has_agent) return;
    if (per_node && (*per_node > 1 || !each_)) each_ = per_node;
    if (tasks && per_node && !hosts_ && *tasks % *per_node == 0) hosts_ = *tasks / *per_node;
    if (tasks && hosts_ && !per_node && *tasks > *hosts_ && *tasks % *hosts_ == 0)
      each_ = *tasks / *hosts_;
    if (tasks && !hosts_ && !per_node && *tasks > 1) spread(*tasks, before + "ntasks");
  }

  void read_jsrun(bool has_agent) {
    const Count sets = each("jsrun.nrs"), on_host = each("jsrun.rs-per-host");
    const Count tasks = each("jsrun.tasks-per-rs");
    if (!sets || !on_host) return;
    hosts_ = (*sets + *on_host - 1) / *on_host;
    if (!has_agent) each_ = *on_host * tasks.value_or(1);
  }

  void read_mpirun(bool has_agent) {
    Count all = each("mpirun.np"), on_host = each("mpirun.npernode");
    const std::vector<std::string> map = split(text_of("mpirun.map-by"), ':');
    if (map.size() >= 2 && map[0] == "ppr" && map[1].size() < 6 &&
        map[1].find_first_not_of("0123456789") == std::string::npos && map.size() > 2 &&
        map[2].starts_with("node"))
      on_host = std::stoi(map[1]);
    const std::string list = text_of("mpirun.host");
    std::set<std::string> named;
    for (const std::string& host : split(is_open(list) ? "" : list, ',')) {
      const std::vector<std::string> parts = split(host, ':');
      named.insert(parts[0]);
      if (parts.size() == 2 && !on_host && parts[1].size() < 6 &&
          parts[1].find_first_not_of("0123456789") == std::string::npos)
        on_host = std::stoi(parts[1]);
    }
    if (!named.empty() && !all) hosts_ = std::ssize(named);
    if (all && on_host && *on_host > 0) {
      if (*all % *on_host != 0 && *all > *on_host)
        from_.fail("mpirun.np", std::to_string(*all) + " processes are no multiple of the " +
                                    std::to_string(*on_host) + " of each host");
      hosts_ = std::max<std::int64_t>(1, *all / *on_host);
    } else if (all && has_agent) {
      hosts_ = all;  // one agent on each host
    } else if (all && !named.empty() && *all % std::ssize(named) == 0) {
      hosts_ = std::ssize(named);
      each_ = *all / *hosts_;
    } else if (all && hosts_ && *all % *hosts_ == 0) {
      each_ = *all / *hosts_;
    } else if (all) {
      spread(*all, "mpirun.np");
    }
    if (on_host && !has_agent) each_ = all ? std::min(*all, *on_host) : *on_host;
  }

  // Spreads processes, one per GPU, over hosts whose number no option gives. Asks for the machine
  // if its GPUs per host are unknown.
  void spread(std::int64_t processes, const std::string& name) {
    const Count on_host = from_machine();
    if (!on_host) {
      to_.ask("cluster.machine", from_.spelled(name) + " " + std::to_string(processes) +
                                     " is spread over as many hosts as its GPUs need");
      return;
    }
    if (processes > *on_host && processes % *on_host != 0)
      from_.fail(name, std::to_string(processes) + " processes are no multiple of the " +
                           std::to_string(*on_host) +
                           " GPUs of a host; give --set cluster.count=NUMBER");
    hosts_ = std::max<std::int64_t>(1, processes / *on_host);
    each_ = std::min(processes, *on_host);
  }

  // Returns the GPUs of one host if the job's ranks are known by now, for example because --set
  // gives the machine.
  Count from_machine() const {
    const std::optional<int> ranks = to_.ranks();
    if (!ranks) return {};
    return *ranks / std::max<std::int64_t>(1, to_.count("cluster.count"));
  }

  void read_torchrun() {
    const Count nodes = hosts("torchrun.nnodes");
    if (nodes) hosts_ = nodes;
    if (!nodes && !says("torchrun.nnodes") && says("torchrun.nproc-per-node") &&
        says("sbatch.nodes") && hosts_.value_or(1) > 1)
      to_.remark(from_.spelled("torchrun.nproc-per-node") + ": without --nnodes each of the " +
                 std::to_string(*hosts_) + " hosts would train alone; one run over all is taken");
    const std::string text = text_of("torchrun.nproc-per-node");
    if (const Count processes = each("torchrun.nproc-per-node")) each_ = processes;
    if (text == "gpu" || text == "auto") each_ = std::nullopt;
  }

  void read_deepspeed() {
    if (const Count nodes = hosts("deepspeed.num-nodes")) hosts_ = nodes;
    if (const Count processes = each("deepspeed.num-gpus")) each_ = processes;
    if (const Count listed = each("hosts.count"); listed && !says("deepspeed.num-nodes") && !hosts_)
      hosts_ = listed;
    if (const Count slots = each("hosts.slots"); slots && !says("deepspeed.num-gpus") && !each_)
      each_ = slots;
    const std::string include = text_of("deepspeed.include");
    if (include.empty() || is_open(include)) {
      if (!include.empty()) open_each_ = from_.spelled("deepspeed.include") + " " + include;
      return;
    }
    const std::vector<std::string> nodes = split(include, '@');
    hosts_ = std::ssize(nodes);
    for (const std::string& node : nodes)
      if (const std::size_t colon = node.find(':'); colon != std::string::npos)
        each_ = std::ssize(split(node.substr(colon + 1), ','));
  }

  void read_accelerate() {
    const Count machines = hosts("accelerate.num-machines");
    if (machines) hosts_ = machines;
    const Count processes = each("accelerate.num-processes");
    if (!processes) return;
    const std::int64_t over = machines.value_or(hosts_.value_or(1));
    if (*processes % over != 0)
      from_.fail("accelerate.num-processes", std::to_string(*processes) +
                                                 " processes are no multiple of " +
                                                 std::to_string(over) + " machines");
    hosts_ = over;
    each_ = *processes / over;
  }

  Settings& from_;
  JobDraft& to_;
  Count hosts_, each_;
  std::string open_hosts_, open_each_;
};

}  // namespace

Rule cluster_sizes_rule() {
  return {{"cluster.count", "cluster.processes_per_host"},
          {std::begin(names), std::end(names)},
          [](Settings& from, JobDraft& to) { ClusterSizes(from, to).read(); },
          nullptr,
          "written by the launchers"};
}

}  // namespace meshwright::interop
