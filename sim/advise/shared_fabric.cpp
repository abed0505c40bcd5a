#include "sim/advise/shared_fabric.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "models/core/error.h"
#include "models/program/mesh.h"
#include "sim/predict/predict.h"

namespace meshwright::sim {

namespace {

constexpr std::size_t most_tenants = 16;

// The load that one tenant puts on the links from leaf switches to the spine, in the unit of
// SpineLoads.
struct Sending {
  double step_s = 0;
  double share = 0;  // share of the step in which the tenant sends to the spine
  // Mean over the time in which it sends; each transfer counts at most the capacity of the link.
  SpineLoads loads;
};

// Identifies transfers that are counted together: kind of instruction and group, and for messages
// the stages that send and receive (-1 for collectives).
using Kind = std::tuple<InstructionKind, GroupKind, int, int>;

SpineLoads loads_of(const Kind& kind, const Mesh& mesh, const Cluster& cluster) {
  const auto& [instruction, group, from, to] = kind;
  if (from < 0)
    return spine_loads(cluster,
                       instruction == InstructionKind::all_to_all ? CollectiveKind::all_to_all
                                                                  : CollectiveKind::all_reduce,
                       mesh.groups(group));
  std::vector<std::pair<int, int>> pairs;
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    Coordinates place = mesh.coordinates(rank);
    if (place.pipeline != from) continue;
    place.pipeline = to;
    pairs.emplace_back(rank, mesh.rank(place));
  }
  return spine_loads(cluster, pairs);
}

bool communicates(const Instruction& instruction) {
  return instruction.group != GroupKind::none || instruction.kind == InstructionKind::send;
}

Sending sending_of(const Tenant& tenant, const Cluster& cluster) {
  Timeline timeline;
  const Prediction prediction = predict(tenant.compiled, cluster, {.timeline = &timeline});
  const Mesh mesh = tenant.compiled.stages.front().settings->mesh();
  const double capacity = spine_capacity(tenant.cluster);
  // The first rank of each stage in the timeline stands for the other ranks of the stage.
  std::map<int, int> rank_of_stage;
  std::map<Kind, double> seconds;
  for (const TimelineEntry& entry : timeline.entries) {
    const int stage = mesh.coordinates(entry.rank).pipeline;
    if (rank_of_stage.try_emplace(stage, entry.rank).first->second != entry.rank) continue;
    const Program& program = tenant.compiled.stages[stage];
    const Instruction& instruction =
        program.bodies[program.tasks[entry.task].body].instructions[entry.instruction];
    if (!communicates(instruction)) continue;
    const bool message = instruction.kind == InstructionKind::send;
    seconds[{instruction.kind, instruction.group, message ? stage : -1,
             message ? instruction.peer : -1}] += to_seconds(entry.end - entry.begin).value;
  }
  Sending sending;
  sending.step_s = prediction.step_time_s;
  const auto stages = static_cast<double>(std::max<std::size_t>(1, rank_of_stage.size()));
  double sent_s = 0;
  for (const auto& [kind, time] : seconds) {
    const SpineLoads loads = loads_of(kind, mesh, cluster);
    if (loads.empty()) continue;
    // loads_of() counts the groups of all stages, so the time of a collective is the mean over the
    // stages. A message is sent by one stage only.
    const double mean_s = std::get<2>(kind) < 0 ? time / stages : time;
    sent_s += mean_s;
    for (const auto& [leaf, load] : loads) sending.loads[leaf] += std::min(load, capacity) * mean_s;
  }
  if (sent_s == 0) return sending;
  for (auto& [leaf, load] : sending.loads) load /= sent_s;
  sending.share = std::min(1.0, sent_s / sending.step_s);
  return sending;
}

// Returns the share of the bandwidth between a leaf and the spine that the tenant `asked` gets on
// average over all combinations of other tenants that send or do not. The leaf at which the tenant
// is slowed down most counts.
double spine_share_of(std::size_t asked, const std::vector<Sending>& all, double capacity) {
  double share = 1;
  for (const auto& [leaf, own] : all[asked].loads) {
    std::vector<std::size_t> others;  // tenants that send from this leaf to the spine too
    for (std::size_t i = 0; i < all.size(); ++i)
      if (i != asked && all[i].share > 0 && all[i].loads.contains(leaf)) others.push_back(i);
    double slowness = 0;
    for (std::size_t state = 0; state < std::size_t{1} << others.size(); ++state) {
      double probability = 1;
      std::vector<double> wanted;
      for (std::size_t i = 0; i < others.size(); ++i) {
        const Sending& other = all[others[i]];
        const bool sends = (state >> i & 1) != 0;
        probability *= sends ? other.share : 1 - other.share;
        if (sends) wanted.push_back(other.loads.at(leaf));
      }
      slowness += probability * capacity / fair_share(capacity, std::move(wanted));
    }
    share = std::min(share, 1 / slowness);
  }
  return share;
}

void check(const std::vector<Tenant>& tenants) {
  if (tenants.size() > most_tenants)
    throw InputError(fmt::format("/jobs: {} jobs; at most {} share a fabric here", tenants.size(),
                                 most_tenants));
  for (std::size_t i = 0; i < tenants.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const int a = tenants[i].cluster.fabric->first_host,
                b = tenants[j].cluster.fabric->first_host;
      if (a < b + tenants[j].cluster.hosts && b < a + tenants[i].cluster.hosts)
        throw InputError(
            fmt::format("/jobs/{}/first_host: {} is among the hosts {} to {} of '{}'; give a host "
                        "that no other job has",
                        i, a, b, b + tenants[j].cluster.hosts - 1, tenants[j].name));
    }
}

}  // namespace

double fair_share(double capacity, std::vector<double> wanted) {
  std::ranges::sort(wanted);
  double left = capacity;
  std::size_t sharing = wanted.size() + 1;
  for (const double each : wanted) {
    if (each >= left / static_cast<double>(sharing)) break;
    left -= each;
    --sharing;
  }
  return left / static_cast<double>(sharing);
}

std::vector<SharedStep> share_fabric(const std::vector<Tenant>& tenants) {
  check(tenants);
  std::vector<Sending> all;
  std::vector<SharedStep> steps;
  for (const Tenant& tenant : tenants) {
    all.push_back(sending_of(tenant, tenant.cluster));
    steps.push_back({all.back().step_s, all.back().step_s, all.back().share, 1});
  }
  constexpr int most_rounds = 10;
  for (int round = 0; round < most_rounds; ++round) {
    double largest_change = 0;
    std::vector<double> shares;
    for (std::size_t i = 0; i < tenants.size(); ++i)
      shares.push_back(spine_share_of(i, all, spine_capacity(tenants[i].cluster)));
    for (std::size_t i = 0; i < tenants.size(); ++i) {
      largest_change = std::max(largest_change, std::abs(shares[i] - steps[i].spine_share));
      steps[i].spine_share = shares[i];
      Cluster cluster = tenants[i].cluster;
      cluster.fabric->spine_share = shares[i];
      all[i] = sending_of(tenants[i], cluster);
      steps[i].together_s = all[i].step_s;
    }
    if (largest_change < 1e-4) break;
  }
  return steps;
}

}  // namespace meshwright::sim
