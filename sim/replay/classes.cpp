#include "sim/replay/classes.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "models/core/error.h"

namespace meshwright::sim {

namespace {

constexpr LinkState sound{1, 1, 1};

LinkState worse(const LinkState& a, const LinkState& b) {
  LinkState worst;
  for (std::size_t link = 0; link < worst.size(); ++link) worst[link] = std::min(a[link], b[link]);
  return worst;
}

LinkState links_of_host(const Faults& faults, int host) {
  LinkState links = sound;
  for (const Faults::DegradedLink& degraded : faults.degraded_links)
    if (degraded.host.value_or(host) == host) {
      double& left = links[static_cast<std::size_t>(degraded.link)];
      left = std::min(left, degraded.factor);
    }
  return links;
}

double slowness_of(const Faults& faults, const Cluster& cluster, int rank) {
  double slowness = 1;
  for (const Faults::SlowRanks& slow : faults.slow_ranks)
    if (slow.rank ? *slow.rank == rank : slow.host == cluster.host_of(rank))
      slowness = std::max(slowness, slow.factor);
  return slowness;
}

// Returns the cluster with the links of every host reduced to these shares.
Cluster with_links(Cluster cluster, const LinkState& links) {
  const auto of = [&](FaultyLink link) { return links[static_cast<std::size_t>(link)]; };
  cluster.machine.nvlink.link_bandwidth_bytes_per_s *= of(FaultyLink::nvlink);
  Pcie& pcie = cluster.machine.pcie;
  for (double* bandwidth : {&pcie.gpu_bandwidth_bytes_per_s, &pcie.uplink_bandwidth_bytes_per_s,
                            &pcie.socket_bandwidth_bytes_per_s})
    *bandwidth *= of(FaultyLink::pcie);
  cluster.machine.network.gbit_per_s_each *= of(FaultyLink::network);
  if (cluster.network_override && cluster.network_override->gbps_per_nic)
    *cluster.network_override->gbps_per_nic *= of(FaultyLink::network);
  return cluster;
}

// Returns a class for every single rank: its stage, its slowness, the links of its host, and for
// each rendezvous the worst links among the ranks that it meets there.
std::vector<RankClass> ranks_alone(const std::vector<Rendezvous>& rendezvous_list, const Mesh& mesh,
                                   const Cluster& cluster) {
  std::vector<LinkState> of_host;
  for (int host = 0; host < cluster.hosts; ++host)
    of_host.push_back(links_of_host(cluster.faults, host));
  std::vector<RankClass> ranks(mesh.ranks());
  for (int rank = 0; rank < mesh.ranks(); ++rank)
    ranks[rank] = {rank,
                   mesh.coordinates(rank).pipeline,
                   1,
                   slowness_of(cluster.faults, cluster, rank),
                   of_host[cluster.host_of(rank)],
                   std::vector<LinkState>(rendezvous_list.size(), sound)};
  if (cluster.faults.degraded_links.empty()) return ranks;
  for (std::size_t rendezvous = 0; rendezvous < rendezvous_list.size(); ++rendezvous)
    for (const std::vector<int>& meeting : meetings_at(rendezvous_list[rendezvous], mesh)) {
      LinkState worst = sound;
      for (const int rank : meeting) worst = worse(worst, ranks[rank].links);
      for (const int rank : meeting) ranks[rank].meeting[rendezvous] = worst;
    }
  return ranks;
}

// Returns one class for each stage, because without faults all ranks of a stage are alike.
RankClasses stages_alone(const Mesh& mesh) {
  RankClasses result;
  const int stages = mesh.degrees().pipeline;
  for (int stage = 0; stage < stages; ++stage)
    result.classes.push_back(
        {mesh.rank({stage, 0, 0}), stage, mesh.ranks() / stages, 1, sound, {}});
  for (int rank = 0; rank < mesh.ranks(); ++rank)
    result.of_rank.push_back(mesh.coordinates(rank).pipeline);
  return result;
}

// Returns a number for each key. Equal keys get equal numbers, in the order in which they first
// appear.
template <class Key>
std::vector<int> numbered(const std::vector<Key>& keys) {
  std::map<Key, int> known;
  std::vector<int> numbers;
  for (const Key& key : keys)
    numbers.push_back(known.emplace(key, static_cast<int>(known.size())).first->second);
  return numbers;
}

int count_of(const std::vector<int>& numbers) { return *std::ranges::max_element(numbers) + 1; }

// Splits classes until the members of each class meet the same classes everywhere (colour
// refinement).
std::vector<int> refined(std::vector<int> of_rank, const std::vector<Rendezvous>& rendezvous_list,
                         const Mesh& mesh) {
  for (int before = 0; before != count_of(of_rank);) {
    before = count_of(of_rank);
    for (const Rendezvous& rendezvous : rendezvous_list) {
      std::vector<std::pair<int, std::set<int>>> keys;
      for (const int number : of_rank) keys.push_back({number, {}});
      for (const std::vector<int>& meeting : meetings_at(rendezvous, mesh)) {
        std::set<int> met;
        for (const int rank : meeting) met.insert(of_rank[rank]);
        for (const int rank : meeting) keys[rank].second = met;
      }
      of_rank = numbered(keys);
    }
  }
  return of_rank;
}

SimTime slowed(SimTime time, double slowness) {
  const double longer = static_cast<double>(time) * slowness;
  constexpr double longest = 4e18;  // 46 days in picoseconds
  if (longer > longest)
    throw InputError("one operation of a slow rank would take more than 46 days");
  return slowness == 1 ? time : std::llround(longer);
}

}  // namespace

RankClasses classes_of(const std::vector<Rendezvous>& rendezvous_list, const Mesh& mesh,
                       const Cluster& cluster, bool fold) {
  if (fold && !cluster.faults.any()) return stages_alone(mesh);
  const std::vector<RankClass> alone = ranks_alone(rendezvous_list, mesh, cluster);
  std::vector<int> of_rank(alone.size());
  for (std::size_t rank = 0; rank < alone.size(); ++rank) of_rank[rank] = alone[rank].rank;
  if (fold) {
    std::vector<std::tuple<int, double, LinkState, std::vector<LinkState>>> keys;
    for (const RankClass& rank : alone)
      keys.emplace_back(rank.stage, rank.slowness, rank.links, rank.meeting);
    of_rank = refined(numbered(keys), rendezvous_list, mesh);
  }
  RankClasses result{{}, of_rank};
  for (const RankClass& rank : alone) {
    const std::size_t number = of_rank[rank.rank];
    if (number == result.classes.size())
      result.classes.push_back(rank);
    else
      ++result.classes[number].ranks;
  }
  return result;
}

const StepTimes& ClassDurations::priced(const LinkState& links, const Script& script,
                                        const std::vector<Rendezvous>& rendezvous_list) {
  Priced& priced = priced_[links];
  if (!priced.durations) {
    if (links != sound) priced.degraded.emplace(with_links(topology_.cluster(), links));
    priced.durations.emplace(settings_, mesh_, links == sound ? topology_ : *priced.degraded);
  }
  StepTimes& times = priced.of_stage[script.program().stage];
  if (times.lasts.empty()) times = priced.durations->of_steps(script, rendezvous_list);
  return times;
}

StepTimes ClassDurations::of_steps(const RankClass& which, const Script& script,
                                   const std::vector<Rendezvous>& rendezvous_list) {
  StepTimes times = priced(which.links, script, rendezvous_list);
  if (!topology_.cluster().faults.any()) return times;
  const int lanes = script.lanes();
  for (std::size_t body = 0; body < script.program().bodies.size(); ++body) {
    const auto& instructions = script.program().bodies[body].instructions;
    const int b = static_cast<int>(body);
    for (int i = script.first_step(b, 0); i < script.end_step(b, lanes - 1); ++i) {
      const Script::Step& step = script.steps()[i];
      if (step.rendezvous >= 0)
        times.lasts[i] = priced(which.meeting[step.rendezvous], script, rendezvous_list).lasts[i];
      else if (instructions[step.instruction].stream == Stream::compute)
        times.lasts[i] = slowed(times.lasts[i], which.slowness);
    }
  }
  return times;
}

}  // namespace meshwright::sim
