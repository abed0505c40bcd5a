#include "sim/collectives/select.h"

#include <algorithm>
#include <bit>
#include <map>

#include "models/core/error.h"
#include "sim/collectives/all_to_all.h"
#include "sim/collectives/chain.h"
#include "sim/collectives/fabric.h"
#include "sim/collectives/halving.h"
#include "sim/collectives/ring.h"
#include "sim/collectives/switch.h"
#include "sim/collectives/timing.h"
#include "sim/collectives/tree.h"
#include "sim/collectives/two_levels.h"

namespace meshwright::sim {

namespace {

struct Question {
  const Topology& topology;
  const PlacedGroup& group;
  double bytes;
  bool one_is_asked;  // whether the caller names an algorithm
};

// Returns the number of chunks of a chain: one for each full 64 KiB, at least 1 and at most 512.
int chain_chunks(const Question& question) {
  return static_cast<int>(std::clamp(question.bytes / (1 << 16), 1.0, 512.0));
}

// Returns the number of chunks of each tree: the bytes of the buffer divided by 256 KiB and by the
// number of network cards, but at least the number of steps of the tree.
int tree_chunks(const Question& question) {
  constexpr double chunk_bytes = 256.0 * (1 << 10);
  const PlacedGroup& group = question.group;
  const int steps = 2 * (group.grid.per_host + std::bit_width(unsigned(group.hosts - 1)) - 1);
  const double whole = question.bytes / (chunk_bytes * std::max(1, group.nics));
  return static_cast<int>(std::clamp(whole, 1.0 * steps, 1e6));
}

bool always(const Question&) { return true; }

bool on_cpus(const Question& question) {
  return question.topology.cluster().machine.shared_memory.has_value();
}

bool on_cpus_of_hosts(const Question& question) {
  return on_cpus(question) && question.group.grid.hosts > 1;
}

bool but_on_cpus_of_hosts(const Question& question) { return !on_cpus_of_hosts(question); }

// Returns whether a tree of GPUs is tried. Inside a host NCCL's tree is a chain, and a ring is
// never slower than a chain. So a tree is only tried between hosts with equal numbers of ranks, or
// if the caller names an algorithm.
bool tree_of_gpus(const Question& question) {
  return !on_cpus(question) && (question.group.grid.hosts > 1 || question.one_is_asked);
}

// Returns whether the switches can add up the group's data. NVSwitches do so from their third
// generation on (nvls_efficiency above 0), for more than four GPUs of a host.
bool with_nvls(const Question& question) {
  constexpr int fewest_gpus = 5;
  return question.topology.cluster().machine.nvlink.nvls_efficiency > 0 &&
         question.group.rectangle && question.group.grid.per_host >= fewest_gpus;
}

bool direct_links(const Question& question) {
  return question.group.hosts == 1 &&
         question.topology.cluster().machine.nvlink.kind == NvlinkKind::matrix;
}

// A row of the table of algorithms. Among the rows of one kind that apply, the fastest is taken,
// unless the caller names one.
struct Algorithm {
  CollectiveKind kind;
  std::string_view name;
  bool (*applies)(const Question&);
  Rounds (*rounds)(const Question&);
  Order order = Order::lanes;
};

const Algorithm algorithms[] = {
    {CollectiveKind::all_reduce, "ring", but_on_cpus_of_hosts,
     [](const Question& q) { return ring_all_reduce(q.group.grid.ranks(), q.group.hosts); },
     Order::passages},
    {CollectiveKind::all_reduce, "tree", tree_of_gpus,
     [](const Question& q) { return tree_all_reduce(q.group.grid, tree_chunks(q)); }, Order::tree},
    {CollectiveKind::all_reduce, "NVLS", with_nvls,
     [](const Question& q) { return switch_all_reduce(q.group.grid, tree_chunks(q)); },
     Order::in_switch},
    {CollectiveKind::all_reduce, "chain", direct_links,
     [](const Question& q) { return chain_all_reduce(q.group.grid.ranks(), chain_chunks(q)); },
     Order::line},
    {CollectiveKind::all_reduce, "rings in two levels", on_cpus_of_hosts,
     [](const Question& q) { return two_level_all_reduce(q.group.grid); }},
    {CollectiveKind::all_reduce, "halving", on_cpus,
     [](const Question& q) {
       return halving_all_reduce({q.group.grid.ranks(), 1});
     }},
    {CollectiveKind::all_gather, "ring", always,
     [](const Question& q) { return ring_all_gather(q.group.grid.ranks(), q.group.hosts); },
     Order::passages},
    {CollectiveKind::two_level_all_gather, "rings in two levels", always,
     [](const Question& q) { return two_level_all_gather(q.group.grid); }},
    {CollectiveKind::reduce_scatter, "ring", always,
     [](const Question& q) { return ring_reduce_scatter(q.group.grid.ranks(), q.group.hosts); },
     Order::passages},
    {CollectiveKind::broadcast, "chain", always,
     [](const Question& q) { return chain_broadcast(q.group.grid.ranks(), chain_chunks(q)); },
     Order::line},
    {CollectiveKind::broadcast, "tree", always,
     [](const Question& q) { return tree_broadcast(q.group.grid.ranks()); }},
    {CollectiveKind::reduce, "chain", always,
     [](const Question& q) { return chain_reduce(q.group.grid.ranks(), chain_chunks(q)); },
     Order::line},
    {CollectiveKind::reduce, "tree", always,
     [](const Question& q) { return tree_reduce(q.group.grid.ranks()); }},
    {CollectiveKind::all_to_all, "pairwise", always,
     [](const Question& q) { return pairwise_all_to_all(q.group.grid.ranks(), 32); },
     Order::exchange},
};

// Returns groups[asked] and, after it, the groups that may use the same links at the same time:
// those of the same grid with a rank on one of its first two hosts. Groups of another grid run
// other rounds and are timed separately. Inside a host with NVSwitch no group shares links with
// another.
std::vector<PlacedGroup> neighbours(const Cluster& cluster, const std::vector<PlacedGroup>& groups,
                                    std::size_t asked) {
  const PlacedGroup& group = groups[asked];
  if (group.grid.hosts == 1 && cluster.machine.nvlink.kind == NvlinkKind::nvswitch) return {group};
  std::vector<int> hosts;
  for (const int rank : group.ranks) {
    if (hosts.empty() || hosts.back() != cluster.host_of(rank))
      hosts.push_back(cluster.host_of(rank));
    if (hosts.size() == 2) break;  // enough for what leaves the first and what enters the second
  }
  std::vector<PlacedGroup> beside = {group};
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const PlacedGroup& other = groups[i];
    if (i == asked || other.grid.hosts != group.grid.hosts ||
        other.grid.per_host != group.grid.per_host)
      continue;
    if (std::ranges::any_of(other.ranks, [&](int rank) {
          return std::ranges::find(hosts, cluster.host_of(rank)) != hosts.end();
        }))
      beside.push_back(other);
  }
  return beside;
}

// Returns the bytes that an all-reduce would move in the time in which this kind moves `bytes`.
// They differ only inside a CPU computer whose profile has two rates: one for collectives that work
// in place, such as an all-reduce, and one for those that write their results to another buffer.
Bytes in_place(const Topology& topology, CollectiveKind kind, Bytes bytes,
               const PlacedGroup& group) {
  const auto& memory = topology.cluster().machine.shared_memory;
  const bool copies = kind == CollectiveKind::all_gather ||
                      kind == CollectiveKind::two_level_all_gather ||
                      kind == CollectiveKind::reduce_scatter;
  if (!memory || !copies || group.grid.hosts > 1 || memory->copy_bandwidth_bytes_per_s == 0)
    return bytes;
  return bytes * (memory->rank_bandwidth_bytes_per_s / memory->copy_bandwidth_bytes_per_s);
}

// Returns the bus bytes, as nccl-tests count them: the least that each rank must send.
Bytes bus_bytes(CollectiveKind kind, Bytes bytes, const PlacedGroup& group) {
  if (kind == CollectiveKind::broadcast || kind == CollectiveKind::reduce) return bytes;
  const double ranks = group.grid.ranks();
  return bytes * ((kind == CollectiveKind::all_reduce ? 2 : 1) * (ranks - 1) / ranks);
}

// Returns the bytes of the buffer that belong to each rank. They are 0 for broadcasts and
// reductions to one rank.
Bytes own_part(CollectiveKind kind, Bytes bytes, const PlacedGroup& group) {
  if (kind == CollectiveKind::broadcast || kind == CollectiveKind::reduce) return {0};
  return bytes / group.grid.ranks();
}

CollectiveChoice best_for(const Topology& topology, CollectiveKind kind, Bytes bytes,
                          const std::vector<PlacedGroup>& beside, std::string_view asked) {
  const Question question{topology, beside[0], bytes.value, !asked.empty()};
  const Bytes moved = in_place(topology, kind, bytes, beside[0]);
  const auto best_of = [&](std::string_view only, Protocols protocols) {
    CollectiveChoice best{"", {0}};
    for (const Algorithm& algorithm : algorithms) {
      if (algorithm.kind != kind || !algorithm.applies(question)) continue;
      if (!only.empty() && algorithm.name != only) continue;
      const Timed timed{topology,
                        beside,
                        moved,
                        bus_bytes(kind, moved, beside[0]),
                        own_part(kind, moved, beside[0]),
                        protocols};
      const Seconds time = time_of(timed, algorithm.rounds(question), algorithm.order);
      if (best.algorithm.empty() || time < best.time) best = {algorithm.name, time};
    }
    return best;
  };
  CollectiveChoice best = best_of(asked, Protocols::all);
  if (best.algorithm.empty()) best = best_of("ring", Protocols::simple);
  if (best.algorithm.empty()) best = best_of({}, Protocols::all);
  MESHWRIGHT_CHECK(!best.algorithm.empty(), "every kind of collective has an algorithm");
  return best;
}

}  // namespace

CollectiveChoice choose_collective(const Topology& topology, CollectiveKind kind, Bytes bytes,
                                   const Groups& concurrent_groups, std::string_view algorithm) {
  if (topology.cluster().fabric)
    return choose_collective(
        with_cards(topology, share_of_cards(topology.cluster(), kind, concurrent_groups)), kind,
        bytes, concurrent_groups, algorithm);
  std::vector<PlacedGroup> groups;
  std::map<std::vector<int>, std::size_t> first_of_shape;
  for (const std::vector<int>& ranks : concurrent_groups) {
    if (ranks.size() < 2) continue;
    groups.push_back(place_group(topology, ranks));
    first_of_shape.emplace(groups.back().shape, groups.size() - 1);
  }
  CollectiveChoice slowest{"none", {0}};
  for (const auto& [shape, index] : first_of_shape) {
    const CollectiveChoice choice =
        best_for(topology, kind, bytes, neighbours(topology.cluster(), groups, index), algorithm);
    if (choice.time > slowest.time) slowest = choice;
  }
  return slowest;
}

Seconds collective_time(const Topology& topology, CollectiveKind kind, Bytes bytes,
                        const Groups& concurrent_groups) {
  return choose_collective(topology, kind, bytes, concurrent_groups).time;
}

}  // namespace meshwright::sim
