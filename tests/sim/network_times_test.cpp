// Tests that the planner asks the network for the time that all groups of a kind take at once. The
// cases are groups that share only one host, groups of experts, context and shards, and messages.
#include "sim/planner/network_times.h"

#include "hwprofiles/load.h"
#include "tests/catch.h"

using namespace meshwright::tests;

namespace {

Cluster hosts(const char* machine, int count) {
  const Machine loaded = load_machine(machine);
  return {loaded, count, loaded.gpus, {}, {}};
}

double of_all(const Cluster& cluster, const Candidate& candidate, GroupKind group,
              CollectiveKind kind, double bytes) {
  const Mesh mesh(candidate.degrees(), candidate.placement);
  return collective_time(Topology(cluster), kind, {bytes}, mesh.groups(group)).value;
}

Candidate candidate_of(int pipeline, int tensor, int data, std::string_view placement) {
  Candidate candidate;
  candidate.pipeline = pipeline, candidate.tensor = tensor, candidate.data = data;
  candidate.placement = placement;
  return candidate;
}

}  // namespace

TEST_CASE("groups that meet on their second host share its card", "[planner]") {
  // The groups are ranks 0 to 11 and 12 to 23. The second host has the end of one group and the
  // begin of the other.
  const Cluster cluster = hosts("p3.16xlarge", 3);
  const Candidate two = candidate_of(2, 1, 12, "PDT");
  NetworkTimes times(cluster);
  constexpr double bytes = 1e9;
  const double both = times.collective(two, GroupKind::rdp, CollectiveKind::all_gather, bytes);
  CHECK(both == of_all(cluster, two, GroupKind::rdp, CollectiveKind::all_gather, bytes));
  const Groups alone = {Mesh(two.degrees(), "PDT").group(GroupKind::rdp, 0)};
  CHECK(both ==
        Approx(2 *
               collective_time(Topology(cluster), CollectiveKind::all_gather, {bytes}, alone).value)
            .epsilon(0.01));
}

TEST_CASE("collectives and rings of a candidate take what those of all its groups do",
          "[planner]") {
  const Cluster cluster = hosts("p3.16xlarge", 4);
  std::vector<Candidate> candidates;
  for (const char* placement : {"PDT", "DPT", "TPD", "PTD", "DTP", "TDP"})
    for (const auto& [pipeline, tensor] :
         {std::pair(1, 1), std::pair(2, 1), std::pair(2, 2), std::pair(1, 4), std::pair(8, 2)})
      candidates.push_back(candidate_of(pipeline, tensor, 32 / pipeline / tensor, placement));
  NetworkTimes times(cluster);
  for (Candidate candidate : candidates) {
    INFO(candidate.pipeline << " x " << candidate.tensor << " " << candidate.placement);
    const auto check = [&](const Candidate& of, GroupKind group, CollectiveKind kind) {
      for (const double bytes : {1e5, 1e8})
        CHECK(times.collective(of, group, kind, bytes) == of_all(cluster, of, group, kind, bytes));
    };
    check(candidate, GroupKind::tensor, CollectiveKind::all_reduce);
    check(candidate, GroupKind::rdp, CollectiveKind::all_reduce);
    Candidate sharded = candidate;
    sharded.zero_stage = 1, sharded.shard = 2;
    check(sharded, GroupKind::shard, CollectiveKind::reduce_scatter);
    check(sharded, GroupKind::replica, CollectiveKind::all_reduce);
    Candidate experts = candidate;
    experts.expert = 2;
    check(experts, GroupKind::expert, CollectiveKind::all_to_all);
    check(experts, GroupKind::expert_rdp, CollectiveKind::all_reduce);
    Candidate context = candidate;
    context.context = 2, context.data /= 2;
    check(context, GroupKind::context, CollectiveKind::all_gather);
    const Mesh mesh(context.degrees(), context.placement);
    std::vector<std::pair<int, int>> pairs;
    for (const std::vector<int>& group : mesh.groups(GroupKind::context)) {
      pairs.emplace_back(group[0], group[1]);
      pairs.emplace_back(group[1], group[0]);
    }
    CHECK(times.shift(context, 1e7) == transfer_time(Topology(cluster), {1e7}, pairs).value);
  }
}

TEST_CASE("a message between stages takes what those of all ranks of the stage do", "[planner]") {
  const Cluster cluster = hosts("p3.16xlarge", 4);
  constexpr std::int64_t bytes = 10'000'000;
  NetworkTimes times(cluster);
  for (const char* placement : {"PDT", "DPT", "TPD"})
    for (const int stages : {2, 4, 16}) {
      INFO(placement << " " << stages);
      const Candidate candidate = candidate_of(stages, 1, 32 / stages, placement);
      const Mesh mesh(candidate.degrees(), placement);
      const auto& boundaries = times.boundaries(candidate, bytes);
      REQUIRE(boundaries.size() == static_cast<std::size_t>(stages - 1));
      for (int from = 0; from + 1 < stages; ++from) {
        std::vector<std::pair<int, int>> pairs;
        bool crosses = false;
        for (int replica = 0; replica < candidate.data; ++replica) {
          pairs.emplace_back(mesh.rank({from, 0, replica}), mesh.rank({from + 1, 0, replica}));
          crosses = crosses || pairs.back().first / 8 != pairs.back().second / 8;
        }
        const auto& boundary = boundaries[static_cast<std::size_t>(from)];
        CHECK(boundary.crosses_hosts == crosses);
        CHECK(boundary.seconds ==
              transfer_time(Topology(cluster), {static_cast<double>(bytes)}, pairs).value);
      }
    }
}
