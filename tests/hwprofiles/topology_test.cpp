#include "hwprofiles/topology.h"

#include "hwprofiles/load.h"
#include "models/core/error.h"
#include "tests/catch.h"

using namespace meshwright::tests;

namespace {

Topology topology_of(const char* machine, int hosts = 1,
                     std::optional<NetworkOverride> network = {}) {
  const Machine loaded = load_machine(machine);
  return Topology({loaded, hosts, loaded.gpus, network, {}});
}

std::vector<std::string> names(const Topology& topology, int from, int to) {
  std::vector<std::string> result;
  for (const int link : topology.route(from, to)) result.push_back(topology.link(link).name);
  return result;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("on the cube mesh linked GPUs talk over NVLink, others over PCIe and the sockets",
          "[hwprofiles]") {
  const Topology p3 = topology_of("p3.16xlarge");
  CHECK(names(p3, 0, 3) == Names{"gpu0 -> gpu3"});
  // GPUs 0 and 3 have two links: 2 x 25 GB/s x 0.904.
  CHECK(p3.link(p3.route(0, 3)[0]).bandwidth_bytes_per_s == Approx(2 * 25e9 * 0.904));
  CHECK(p3.link(p3.route(0, 1)[0]).bandwidth_bytes_per_s == Approx(25e9 * 0.904));
  CHECK(names(p3, 0, 7) == Names{"gpu0 -> switch", "switch0 -> socket", "socket0 -> socket1",
                                 "socket -> switch3", "switch -> gpu7"});
}

TEST_CASE("an NVSwitch joins all GPUs through one link up and one link down each", "[hwprofiles]") {
  const Topology p4d = topology_of("p4d.24xlarge");
  CHECK(names(p4d, 1, 6) == Names{"gpu1 -> nvswitch", "nvswitch -> gpu6"});
  CHECK(p4d.link(p4d.route(1, 6)[0]).bandwidth_bytes_per_s ==
        Approx(12 * 25e9 * p4d.cluster().machine.nvlink.efficiency));
}

TEST_CASE("between hosts bytes take the NICs nearest to the GPU", "[hwprofiles]") {
  const Topology p4d = topology_of("p4d.24xlarge", 2);
  CHECK(names(p4d, 3, 8 + 6) == Names{"gpu3 -> switch", "nics of switch1 -> fabric",
                                      "fabric -> nics of switch3", "switch -> gpu6"});
  CHECK(p4d.host_of_link(p4d.route(3, 14)[1]) == 0);
  CHECK(p4d.host_of_link(p4d.route(3, 14)[2]) == 1);
  // Four EFA interfaces of 100 Gbit/s serve each GPU of p5: 4 x 12.5 GB/s times their efficiency.
  const Topology p5 = topology_of("p5.48xlarge", 2);
  CHECK(p5.link(p5.route(0, 8)[1]).bandwidth_bytes_per_s ==
        Approx(4 * 12.5e9 * p5.cluster().machine.network.efficiency));
  // p3 has no GPUDirect, and one NIC on a switch of its own, so bytes cross the sockets.
  const Topology p3 = topology_of("p3.16xlarge", 2);
  CHECK(names(p3, 7, 8).front() == "gpu7 -> switch");
  CHECK(names(p3, 7, 8)[2] == "socket1 -> socket0");
  CHECK(names(p3, 7, 8)[4] == "nics of switch4 -> fabric");
}

TEST_CASE("another number of NICs is spread over the switches", "[hwprofiles]") {
  // 2 NICs over the 4 switches of DGX A100: switches 0 and 2.
  const Topology dgx = topology_of("dgx-a100-80gb", 2, NetworkOverride{2, 100.0, {}});
  CHECK(names(dgx, 2, 8)[1] == "switch1 -> socket");
  CHECK(names(dgx, 2, 8)[3] == "nics of switch0 -> fabric");
  CHECK(names(dgx, 7, 8)[3] == "nics of switch2 -> fabric");
}

TEST_CASE("the links of 2,048 hosts take no more memory than those of one", "[hwprofiles]") {
  const Topology many = topology_of("p5.48xlarge", 2048);
  CHECK(many.links_per_host() == topology_of("p5.48xlarge").links_per_host());
  CHECK(many.host_of_link(many.route(0, 2047 * 8).back()) == 2047);
}

TEST_CASE("every pair has a route and every link of it exists", "[hwprofiles]") {
  for (const std::string& name : list_machines()) {
    INFO(name);
    const Topology topology = topology_of(name.c_str(), 2);
    const int ranks = topology.cluster().ranks();
    for (int from = 0; from < ranks; ++from)
      for (int to = 0; to < ranks; ++to) {
        const auto route = topology.route(from, to);
        CHECK(route.empty() == (from == to));
        for (const int link : route) {
          CHECK(link >= 0);
          CHECK(topology.link(link).bandwidth_bytes_per_s > 0);
        }
      }
  }
}

TEST_CASE("more processes than GPUs are refused", "[hwprofiles]") {
  CHECK_THROWS_AS(Topology({load_machine("p4d.24xlarge"), 1, 9, {}, {}}), InputError);
}
