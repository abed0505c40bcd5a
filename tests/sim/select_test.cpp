#include "sim/collectives/select.h"

#include <numeric>

#include "hwprofiles/load.h"
#include "tests/catch.h"

using namespace meshwright::tests;

namespace {

constexpr double GiB = 1024.0 * 1024 * 1024;

// Returns a cluster with only these limits: one NVSwitch link of 100 GB/s per GPU, a latency of 1
// us per step, and one NIC of 10 GB/s per GPU with 2 us per step.
Cluster uniform(int gpus, int hosts) {
  Machine machine;
  machine.name = "uniform";
  machine.gpus = gpus;
  machine.nvlink = {NvlinkKind::nvswitch, 1, 100e9, 1, {}, {}};
  machine.network.nics = gpus;
  machine.network.gbit_per_s_each = 80;
  machine.network.gpudirect = true;
  machine.pcie.gpu_bandwidth_bytes_per_s = machine.pcie.uplink_bandwidth_bytes_per_s = 1e12;
  machine.pcie.socket_bandwidth_bytes_per_s = 1e12;
  for (int gpu = 0; gpu < gpus; ++gpu) machine.pcie.switches.push_back({{gpu}, {gpu}, 0});
  machine.host_latency = {0, 1e-6};
  machine.network_latency = {0, 2e-6};
  return {machine, hosts, gpus, {}, {}};
}

Cluster cluster_of(const char* name, int hosts, int processes = 0) {
  Machine machine = load_machine(name);
  const int per_host = processes > 0 ? processes : machine.gpus;
  return {std::move(machine), hosts, per_host, {}, {}};
}

std::vector<int> first_ranks(int count) {
  std::vector<int> ranks(static_cast<std::size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// Returns one group per rail: the g-th ranks of all hosts are in group g.
Groups rails(const Cluster& cluster) {
  Groups groups(static_cast<std::size_t>(cluster.processes_per_host));
  for (int rank = 0; rank < cluster.ranks(); ++rank)
    groups[static_cast<std::size_t>(rank % cluster.processes_per_host)].push_back(rank);
  return groups;
}

double bus_bandwidth(const Cluster& cluster, double bytes) {
  const double n = cluster.ranks();
  return 2 * (n - 1) / n * bytes /
         collective_time(Topology(cluster), CollectiveKind::all_reduce, {bytes},
                         {first_ranks(cluster.ranks())})
             .value;
}

}  // namespace

TEST_CASE("on a uniform network a ring takes its closed form", "[sim][collectives]") {
  // An all-reduce takes 2 (n - 1) (latency + bytes / (n bandwidth)), each of its two halves half of
  // that.
  for (const int n : {2, 3, 4, 7, 8}) {
    const Topology topology(uniform(n, 1));
    const double bytes = 1e9, steps = 2.0 * (n - 1),
                 expected = steps * (1e-6 + bytes / (n * 100e9));
    const Groups group = {first_ranks(n)};
    CHECK(collective_time(topology, CollectiveKind::all_reduce, {bytes}, group).value ==
          Approx(expected));
    CHECK(collective_time(topology, CollectiveKind::all_gather, {bytes}, group).value ==
          Approx(expected / 2));
    CHECK(collective_time(topology, CollectiveKind::reduce_scatter, {bytes}, group).value ==
          Approx(expected / 2));
    // An all-to-all has n - 1 rounds, posted together, in which every rank sends bytes / n.
    CHECK(collective_time(topology, CollectiveKind::all_to_all, {bytes}, group).value ==
          Approx(1e-6 + (n - 1) * bytes / (n * 100e9)));
  }
}

TEST_CASE("between hosts the NICs decide: a tree sends less than a ring between two",
          "[sim][collectives]") {
  // The all-reduce is of 64 MB on 2 hosts x 4 GPUs. A ring has 14 steps of 8 MB through 4 NICs of
  // 10 GB/s, 2800 us. Of these steps 4 wait for the network and 10 do not, 18 us. A tree sends 64
  // MB through 4 NICs, 1600 us, in 512 chunks that take 8 steps, 6 of them inside the hosts: 7 /
  // 512 more, and 10 us.
  const Topology topology(uniform(4, 2));
  const auto all =
      choose_collective(topology, CollectiveKind::all_reduce, {64e6}, {first_ranks(8)});
  CHECK(all.algorithm == "tree");
  CHECK(all.time.value == Approx(1600e-6 * 68 / 61 + 10e-6));
  // If the GPUs of a host sum fewer bytes per second for each card than the card carries, the ring
  // is faster.
  Cluster narrow = uniform(4, 2);
  narrow.machine.network.tree_bandwidth_bytes_per_s = 5e9;
  const auto ring =
      choose_collective(Topology(narrow), CollectiveKind::all_reduce, {64e6}, {first_ranks(8)});
  CHECK(ring.algorithm == "ring");
  CHECK(ring.time.value == Approx(2818e-6));
  // Four groups of one rank per host run at once, each with its own NIC: 2 steps of 32 MB at 10
  // GB/s.
  CHECK(collective_time(topology, CollectiveKind::all_reduce, {64e6}, rails(topology.cluster()))
            .value == Approx(2 * (2e-6 + 32e6 / 10e9)));
}

TEST_CASE("short messages between hosts take the protocol without Simple's latency",
          "[sim][collectives]") {
  // Two hosts with 1 GPU each send 100 KB in a ring of 2 steps of 2 us, which takes 10 us on the
  // wire. The protocol LL sends twice the bytes. Simple waits 20 us more in each step.
  Cluster cluster = uniform(1, 2);
  cluster.machine.network.ll_bandwidth_bytes_per_s = 1e12;
  cluster.machine.network.simple_step_latency_s = 20e-6;
  const auto time = [&](double bytes) {
    return collective_time(Topology(cluster), CollectiveKind::all_reduce, {bytes}, {{0, 1}}).value;
  };
  CHECK(time(1e5) == Approx(4e-6 + 20e-6));
  CHECK(time(1e7) == Approx(4e-6 + 1e-3 + 40e-6));
  cluster.machine.network.ll_bandwidth_bytes_per_s = 4e9;  // 25 us for the 100 KB
  CHECK(time(1e5) == Approx(4e-6 + 25e-6));
}

TEST_CASE("switches that sum up take all-reduces of more than four GPUs", "[sim][collectives]") {
  // With 8 GPUs and 80 MB, an all-reduce in the switch takes 10 us, two steps of 1 us, and 140 MB
  // at 200 GB/s of bus bandwidth.
  Cluster cluster = uniform(8, 1);
  cluster.machine.nvlink.nvls_efficiency = 2;
  cluster.machine.nvlink.nvls_latency_s = 10e-6;
  const auto choice = [&](int gpus, CollectiveKind kind) {
    return choose_collective(Topology(cluster), kind, {80e6}, {first_ranks(gpus)});
  };
  CHECK(choice(8, CollectiveKind::all_reduce).algorithm == "NVLS");
  CHECK(choice(8, CollectiveKind::all_reduce).time.value == Approx(12e-6 + 140e6 / 200e9));
  CHECK(choice(8, CollectiveKind::all_gather).algorithm == "ring");
  CHECK(choice(4, CollectiveKind::all_reduce).algorithm == "ring");
}

TEST_CASE("inside a host the fastest of three protocols is taken", "[sim][collectives]") {
  // An all-gather among 8 GPUs has 7 steps of 1 us, and 7/8 of the bytes go over a link of 100
  // GB/s.
  Cluster cluster = uniform(8, 1);
  Nvlink& nvlink = cluster.machine.nvlink;
  nvlink.ll_bandwidth_bytes_per_s = 25e9;
  nvlink.ll128_share = 0.5;
  nvlink.ll128_latency_s = 5e-6;
  nvlink.simple_latency_s = 20e-6;
  const auto time = [&](double bytes, CollectiveKind kind = CollectiveKind::all_gather) {
    return collective_time(Topology(cluster), kind, {bytes}, {first_ranks(8)}).value;
  };
  CHECK(time(8e3) == Approx(7e-6 + 7e3 / 25e9));             // LL
  CHECK(time(1.6e6) == Approx(7e-6 + 1.4e6 / 50e9 + 5e-6));  // LL128
  CHECK(time(80e6) == Approx(7e-6 + 70e6 / 100e9 + 20e-6));  // Simple
  // While Simple's pipeline fills, 6 steps wait for a rank's 10 MB, but for at most 1 MB each.
  nvlink.simple_fill_bytes = 1e6;
  CHECK(time(80e6) == Approx(7e-6 + 70e6 / 100e9 + 20e-6 + 6e6 / 100e9));
  // A rank also copies its own 10 MB, here at half the cost.
  nvlink.own_share = 0.5;
  CHECK(time(80e6) == Approx(7e-6 + 75e6 / 100e9 + 20e-6 + 6e6 / 100e9));
  CHECK(time(80e6, CollectiveKind::broadcast) < 80e6 / 99e9 + 100e-6);  // has no own part
}

TEST_CASE("sends among ranks of a host turn to Simple beyond 16 KiB each", "[sim][collectives]") {
  Cluster cluster = uniform(8, 1);
  Nvlink& nvlink = cluster.machine.nvlink;
  nvlink.ll_bandwidth_bytes_per_s = 25e9;
  nvlink.exchange_share = 0.8;
  nvlink.exchange_latency_s = 8e-6;
  const Topology topology(cluster);
  const auto time = [&](double own) {
    return collective_time(topology, CollectiveKind::all_to_all, {8 * own}, {first_ranks(8)}).value;
  };
  CHECK(time(16384) == Approx(1e-6 + 7 * 16384 / 25e9));
  CHECK(time(16385) == Approx(1e-6 + 7 * 16385 / 80e9 + 8e-6));
  CHECK(transfer_time(topology, {1e6}, {{0, 1}}).value == Approx(1e-6 + 1e6 / 80e9 + 8e-6));
}

TEST_CASE("sums in the switch begin at half the speed", "[sim][collectives]") {
  Cluster cluster = uniform(8, 1);
  cluster.machine.nvlink.nvls_efficiency = 2;
  cluster.machine.nvlink.nvls_ramp_bytes = 35e6;  // of the 140 MB that each sends
  const auto all =
      choose_collective(Topology(cluster), CollectiveKind::all_reduce, {80e6}, {first_ranks(8)});
  CHECK(all.algorithm == "NVLS");
  CHECK(all.time.value == Approx(2e-6 + 175e6 / 200e9));
}

TEST_CASE("over PCIe LL sends the double and Simple begins later", "[sim][collectives]") {
  Cluster cluster = uniform(2, 1);
  cluster.machine.nvlink.kind = NvlinkKind::none;
  cluster.machine.pcie.gpu_bandwidth_bytes_per_s = 10e9;
  cluster.machine.pcie.simple_latency_s = 15e-6;
  const auto time = [&](double bytes) {
    return collective_time(Topology(cluster), CollectiveKind::all_gather, {bytes}, {{0, 1}}).value;
  };
  CHECK(time(20e3) == Approx(1e-6 + 2 * 1e-6));
  CHECK(time(2e6) == Approx(1e-6 + 100e-6 + 15e-6));
}

TEST_CASE("an algorithm that is asked for is taken, or a ring with Simple", "[sim][collectives]") {
  Cluster cluster = uniform(8, 1);
  Nvlink& nvlink = cluster.machine.nvlink;
  nvlink.ll_bandwidth_bytes_per_s = 25e9;
  nvlink.simple_latency_s = 20e-6;
  const auto choice = [&](std::string_view algorithm) {
    return choose_collective(Topology(cluster), CollectiveKind::all_reduce, {8e3}, {first_ranks(8)},
                             algorithm);
  };
  CHECK(choice("").time.value == Approx(14e-6 + 14e3 / 25e9));
  CHECK(choice("tree").algorithm == "tree");
  CHECK(choice("NVLS").algorithm == "ring");  // the switch has none
  CHECK(choice("NVLS").time.value == Approx(14e-6 + 14e3 / 100e9 + 20e-6));
  nvlink.nvls_efficiency = 1;
  nvlink.nvls_latency_s = 1e-3;
  CHECK(choice("").algorithm == "ring");
  CHECK(choice("NVLS").algorithm == "NVLS");
}

TEST_CASE("72 GPUs of one NVLink domain are one host", "[sim][collectives]") {
  // A ring of 72 GPUs needs 340 us of NVLink for each of 8 GiB. At 400 Gb/s it would be 21 ms.
  const Cluster rack = cluster_of("gb200-nvl72", 1);
  CHECK(rack.ranks() == 72);
  const auto all =
      choose_collective(Topology(rack), CollectiveKind::all_reduce, {8 * GiB}, {first_ranks(72)});
  CHECK(all.algorithm == "NVLS");
  CHECK(bus_bandwidth(rack, 8 * GiB) > 700e9);
  CHECK(bus_bandwidth(cluster_of("gb200-nvl72", 2), 8 * GiB) > 700e9);
}

TEST_CASE("rings over hosts with one card enter and leave them beside it", "[sim][collectives]") {
  // One of the cube mesh's rings has single links and passes GPUs 0 and 1, whose switch has the
  // card, in both directions. So 2 (n - 1) / n of the bytes go through the card and none through
  // the sockets.
  Cluster cluster = cluster_of("dgx-1v-16gb", 4);
  cluster.network_override = NetworkOverride{1, 100.0, {}};
  const double card = 12.5e9 * cluster.machine.network.efficiency;
  CHECK(bus_bandwidth(cluster, GiB) == Approx(card).epsilon(0.01));
  cluster.machine.pcie.socket_bandwidth_bytes_per_s = 1;
  CHECK(bus_bandwidth(cluster, GiB) == Approx(card).epsilon(0.01));
}

TEST_CASE("a gather in two levels sends less over the network", "[sim][collectives]") {
  // A gather of 64 MB on 2 hosts x 4 GPUs in two levels has 3 steps of 16 MB at 100 GB/s inside a
  // host and 1 step of 8 MB at 10 GB/s across: 480 + 800 us, and a latency of 3 + 2 us. One ring
  // has 7 steps of 8 MB through 4 NICs: 1400 us, and a latency of 5 x 1 + 2 x 2 us.
  const Topology topology(uniform(4, 2));
  const auto time = [&](CollectiveKind kind) {
    return collective_time(topology, kind, {64e6}, {first_ranks(8)}).value;
  };
  CHECK(time(CollectiveKind::two_level_all_gather) == Approx(1285e-6));
  CHECK(time(CollectiveKind::all_gather) == Approx(1409e-6));
  CHECK(time(CollectiveKind::reduce_scatter) == Approx(1409e-6));
  // Inside a host both gathers are the same, because there is only one level.
  const Topology host(uniform(4, 1));
  CHECK(
      collective_time(host, CollectiveKind::two_level_all_gather, {64e6}, {first_ranks(4)}).value ==
      collective_time(host, CollectiveKind::all_gather, {64e6}, {first_ranks(4)}).value);
}

TEST_CASE("groups that share NICs share their bandwidth", "[sim][collectives]") {
  // On a p4d, GPUs 0 and 1 share one NIC. All 8 groups at once take twice as long on the wire as
  // every second group.
  const Cluster cluster = cluster_of("p4d.24xlarge", 4);
  const Topology topology(cluster);
  const Groups all = rails(cluster);
  const Groups half = {all[0], all[2], all[4], all[6]};
  const auto time = [&](const Groups& groups) {
    return collective_time(topology, CollectiveKind::all_gather, {8 * GiB}, groups).value;
  };
  CHECK(time(all) / time(half) == Approx(2).epsilon(0.001));
}

TEST_CASE("known machines reach their published all-reduce bus bandwidth", "[sim][collectives]") {
  CHECK(bus_bandwidth(cluster_of("p6-b200.48xlarge", 4), 8 * GiB) == Approx(380e9).epsilon(0.05));
  CHECK(bus_bandwidth(cluster_of("p4d.24xlarge", 1), GiB) == Approx(229e9).epsilon(0.015));
  CHECK(bus_bandwidth(cluster_of("p4de.24xlarge", 2), 2 * GiB) == Approx(78.3e9).epsilon(0.05));
  CHECK(bus_bandwidth(cluster_of("p5.48xlarge", 2), 2 * GiB) == Approx(443.7e9).epsilon(0.06));
  // These bandwidths are published for the first n GPUs of a V100 cube mesh.
  const double published[] = {22.6e9, 45e9, 85e9, 37e9, 46e9, 87e9, 135e9};
  for (int n = 2; n <= 8; ++n) {
    INFO(n);
    CHECK(bus_bandwidth(cluster_of("dgx-1v-16gb", 1, n), GiB) ==
          Approx(published[n - 2]).epsilon(0.07));
  }
}

TEST_CASE("over many hosts a short all-reduce takes the algorithm with fewer steps",
          "[sim][collectives]") {
  const Cluster cluster = cluster_of("p4de.24xlarge", 64);
  const Topology topology(cluster);
  const auto choice =
      choose_collective(topology, CollectiveKind::all_reduce, {1e6}, {first_ranks(64 * 8)});
  CHECK(choice.algorithm == "tree");
}

TEST_CASE("more bandwidth is never slower and more bytes never faster", "[sim][collectives]") {
  constexpr CollectiveKind kinds[] = {CollectiveKind::all_reduce, CollectiveKind::all_gather,
                                      CollectiveKind::reduce_scatter, CollectiveKind::all_to_all,
                                      CollectiveKind::broadcast};
  for (const char* name : {"p3.16xlarge", "p4d.24xlarge", "g5.48xlarge", "dgx-h100", "g6e.48xlarge",
                           "p6-b200.48xlarge"})
    for (const CollectiveKind kind : kinds) {
      const Cluster cluster = cluster_of(name, 3);
      const Topology topology(cluster);
      const Groups all = {first_ranks(cluster.ranks())};
      double last = 0;
      for (const double bytes : {8.0, 1e4, 1e6, 3e7, 1e8, 1e9}) {
        INFO(name << " " << bytes);
        const double time = collective_time(topology, kind, {bytes}, all).value;
        CHECK(time >= last);
        last = time;
        for (const LinkKind link :
             {LinkKind::nvlink, LinkKind::nic, LinkKind::pcie, LinkKind::uplink}) {
          Topology faster(cluster);
          faster.scale_links(link, 2);
          CHECK(collective_time(faster, kind, {bytes}, all).value <= time * (1 + 1e-9));
        }
      }
    }
}

TEST_CASE(
    "groups of every shape are timed: uneven over hosts, on a part of the cube mesh, of one rank",
    "[sim][collectives]") {
  const Topology topology(cluster_of("p3.16xlarge", 3));
  const auto time = [&](const Groups& groups) {
    return collective_time(topology, CollectiveKind::all_reduce, {1e8}, groups).value;
  };
  CHECK(time({{5}}) == 0);
  CHECK(time({}) == 0);
  CHECK(time({{0, 1, 2, 8}}) > time({{0, 1, 2, 3}}));       // 3 + 1 over two hosts
  CHECK(time({{0, 3}, {1, 2}}) == Approx(time({{0, 3}})));  // separate links
  CHECK(time({{0, 3}}) < time({{0, 1}}));                   // two links against one
  CHECK(time({{0, 5}}) > time({{0, 1}}));                   // no NVLink: PCIe and the sockets
  CHECK(time({{0, 3}, {8, 9}}) == Approx(time({{0, 1}})));  // the slowest group counts
}

TEST_CASE("pipeline sends share the NICs of their hosts", "[sim][collectives]") {
  const Topology topology(cluster_of("p4d.24xlarge", 2));
  const auto time = [&](const std::vector<std::pair<int, int>>& pairs) {
    return transfer_time(topology, {1e10}, pairs).value;
  };
  // A NIC carries 12.5 GB/s times its efficiency, for one GPU or for the two that share it.
  const double nic = 12.5e9 * topology.cluster().machine.network.efficiency;
  CHECK(time({{0, 8}}) == Approx(1e10 / nic).epsilon(0.001));
  CHECK(time({{0, 8}, {1, 9}}) == Approx(2e10 / nic).epsilon(0.001));
  CHECK(time({{0, 8}, {2, 10}}) == Approx(1e10 / nic).epsilon(0.001));
  CHECK(time({{0, 1}}) < time({{0, 8}}) / 10);  // NVLink
  CHECK(time({{3, 3}}) == 0);
}

TEST_CASE("ranks of a CPU computer share its memory", "[sim][collectives]") {
  Machine local;
  local.name = "local";
  local.gpus = 64;
  local.gpu.kind = DeviceKind::cpu;
  local.shared_memory = SharedMemory{4e9, 6e9};
  local.host_latency = {0, 2e-6};
  // Two ranks have 2 steps of 50 MB. Each rank alone would copy at 4 GB/s, but together they get 6
  // GB/s, so 3 GB/s each.
  CHECK(collective_time(Topology({local, 1, 2, {}, {}}), CollectiveKind::all_reduce, {100e6},
                        {{0, 1}})
            .value == Approx(2 * (2e-6 + 50e6 / 3e9)));
  // For a few bytes, 8 ranks take 2 log2 8 = 6 steps instead of 14.
  CHECK(collective_time(Topology({local, 1, 8, {}, {}}), CollectiveKind::all_reduce, {8},
                        {first_ranks(8)})
            .value == Approx(6 * 2e-6).epsilon(0.01));
  // Collectives whose results are written to another buffer run at 2 GB/s, where an all-reduce
  // would have 4, so they take twice the time.
  local.shared_memory->copy_bandwidth_bytes_per_s = 2e9;
  for (CollectiveKind kind : {CollectiveKind::all_gather, CollectiveKind::reduce_scatter})
    CHECK(collective_time(Topology({local, 1, 2, {}, {}}), kind, {100e6}, {{0, 1}}).value ==
          Approx(2e-6 + 2 * 50e6 / 3e9));
}
