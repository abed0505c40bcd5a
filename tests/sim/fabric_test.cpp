// Tests fabrics of leaf and spine switches by closed forms: how much each pattern of traffic is
// slowed down by oversubscription.
#include "sim/collectives/fabric.h"

#include "hwprofiles/load.h"
#include "sim/advise/shared_fabric.h"
#include "tests/catch.h"
#include "tests/message_of.h"
#include "tests/sim/plans.h"

using namespace meshwright::tests;

namespace {

constexpr Bytes large{4e9};

// Returns a cluster whose hosts have 8 GPUs and 4 cards each.
Cluster hosts(int count) {
  Cluster cluster;
  cluster.machine = load_machine("p4d.24xlarge");
  cluster.hosts = count;
  cluster.processes_per_host = 8;
  return cluster;
}

Fabric leaves(int ports, double oversubscription, bool rails = false) {
  Fabric fabric;
  fabric.leaf_ports = ports;
  fabric.oversubscription = oversubscription;
  fabric.rails = rails;
  return fabric;
}

// Returns, for each g, the group of the g-th GPUs of the hosts. With a stride, a group has only
// every stride-th host.
Groups across(int count, int stride = 1) {
  Groups groups;
  for (int start = 0; start < stride; ++start)
    for (int gpu = 0; gpu < 8; ++gpu) {
      groups.emplace_back();
      for (int host = start; host < count; host += stride) groups.back().push_back(host * 8 + gpu);
    }
  return groups;
}

double time_of(const Cluster& cluster, CollectiveKind kind, const Groups& groups) {
  return collective_time(build_topology(cluster), kind, large, groups).value;
}

double slower(Cluster cluster, const Fabric& fabric, CollectiveKind kind, const Groups& groups) {
  const double before = time_of(cluster, kind, groups);
  cluster.fabric = fabric;
  return time_of(cluster, kind, groups) / before;
}

}  // namespace

TEST_CASE("a fabric that never blocks changes nothing", "[fabric]") {
  for (const CollectiveKind kind :
       {CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::all_to_all})
    for (const bool rails : {false, true})
      CHECK(slower(hosts(8), leaves(8, 1, rails), kind, across(8)) == 1);
}

TEST_CASE("rings leave a leaf once, and cross a spine with little bandwidth unharmed", "[fabric]") {
  // Leaves have two hosts (8 cards). Only the traffic of one host's cards leaves a leaf in either
  // direction.
  CHECK(slower(hosts(8), leaves(8, 2), CollectiveKind::all_gather, across(8)) == 1);
  // With half of that bandwidth, half of the speed is left.
  CHECK(slower(hosts(8), leaves(8, 4), CollectiveKind::all_gather, across(8)) ==
        Approx(2).epsilon(0.02));
  // With rails, a leaf has one rail of eight hosts, so no traffic leaves it.
  CHECK(slower(hosts(8), leaves(8, 4, true), CollectiveKind::all_gather, across(8)) == 1);
}

TEST_CASE("rings whose neighbours lie in different leaves pay for all of the oversubscription",
          "[fabric]") {
  // Leaves have two hosts, and groups every second host, so each hop leaves its leaf.
  CHECK(slower(hosts(8), leaves(8, 2), CollectiveKind::all_gather, across(8, 2)) ==
        Approx(2).epsilon(0.02));
}

TEST_CASE("all to all sends to other leaves what is not in its own", "[fabric]") {
  // Six of the seven other hosts are in other leaves. So 6/7 of the traffic of 2 hosts meets a
  // quarter of their cards' bandwidth.
  CHECK(slower(hosts(8), leaves(8, 4), CollectiveKind::all_to_all, across(8)) ==
        Approx(4 * 6.0 / 7).epsilon(0.02));
}

TEST_CASE("what stays in a leaf or a host does not meet the spine", "[fabric]") {
  CHECK(slower(hosts(2), leaves(8, 16), CollectiveKind::all_reduce, across(2)) == 1);
  Cluster cluster = hosts(2);
  cluster.fabric = leaves(8, 16);
  cluster.fabric->first_host = 1;  // the two lie in two leaves
  CHECK(share_of_cards(cluster, CollectiveKind::all_reduce, across(2)) == Approx(2.0 / 16));
}

TEST_CASE("switches that sum up halve what a long all-reduce sends", "[fabric]") {
  Fabric fabric = leaves(32, 1);
  fabric.in_network_reduction = true;
  CHECK(slower(hosts(8), fabric, CollectiveKind::all_gather, across(8)) == 1);
  Cluster cluster = hosts(8);
  cluster.fabric = fabric;
  CHECK(share_of_cards(cluster, CollectiveKind::all_reduce, across(8)) == Approx(2 * 7.0 / 8));
  CHECK(slower(hosts(8), fabric, CollectiveKind::all_reduce, across(8)) < 0.7);
}

TEST_CASE("messages between stages share the way to the spine", "[fabric]") {
  Cluster cluster = hosts(4);
  std::vector<std::pair<int, int>> pairs;  // from the first leaf to the second
  for (int rank = 0; rank < 16; ++rank) pairs.emplace_back(rank, rank + 16);
  const double before = transfer_time(build_topology(cluster), large, pairs).value;
  cluster.fabric = leaves(8, 4);
  CHECK(transfer_time(build_topology(cluster), large, pairs).value / before ==
        Approx(4).epsilon(0.02));
}

TEST_CASE("bandwidth is shared max-min fairly", "[fabric]") {
  CHECK(fair_share(12, {}) == 12);
  CHECK(fair_share(12, {100}) == 6);
  CHECK(fair_share(12, {2}) == 10);
  CHECK(fair_share(12, {1, 100}) == 5.5);
  CHECK(fair_share(12, {100, 100, 100}) == 3);
  CHECK(fair_share(12, {3.9, 4.5}) == Approx(4.05));
}

TEST_CASE("jobs on one fabric slow each other down where they meet, and nowhere else", "[fabric]") {
  const auto tenant = [](const std::string& name, int first_host, double oversubscription) {
    Cluster cluster = hosts(2);
    cluster.fabric = leaves(8, oversubscription);
    cluster.fabric->first_host = first_host;
    return Tenant{name,
                  compiled_for(small_model(), plans_for(cluster.ranks()).front().plan, cluster),
                  cluster};
  };
  // Each job is in a leaf of its own.
  for (const SharedStep& step : share_fabric({tenant("a", 0, 8), tenant("b", 2, 8)})) {
    CHECK(step.sends == 0);
    CHECK(step.together_s == step.alone_s);
  }
  // Both jobs span the same two leaves and share the links between them.
  const auto across_leaves = [&](double oversubscription) {
    std::vector<Tenant> all = {tenant("a", 1, oversubscription), tenant("b", 3, oversubscription)};
    return share_fabric(all);
  };
  const std::vector<SharedStep> both = across_leaves(8);
  for (const SharedStep& step : both) {
    CHECK(step.sends > 0);
    CHECK(step.spine_share < 1);
    CHECK(step.spine_share >= 0.5);
    CHECK(step.together_s > step.alone_s);
  }
  CHECK(both[0].together_s == Approx(both[1].together_s).epsilon(1e-3));
  // If both fit, neither job becomes slower.
  for (const SharedStep& step : across_leaves(1)) CHECK(step.together_s == step.alone_s);
  CHECK(message_of([&] {
          share_fabric({tenant("a", 0, 1), tenant("b", 1, 1)});
        }).find("is among the hosts 0 to 1 of 'a'") != std::string::npos);
}
