// Tests the sentence that says what is lost with more GPUs, for made-up rungs of a ladder.
#include "sim/advise/ladder.h"
#include "tests/catch.h"

using namespace meshwright::tests;

namespace {

// Returns a rung whose step of 1000 consists of matmuls, exposed reductions and bubble.
Rung rung_of(int hosts, double efficiency, SimTime reductions, SimTime bubble) {
  Rung rung;
  rung.hosts = hosts;
  rung.processes_per_host = 8;
  rung.efficiency = efficiency;
  rung.parts.step_time = 1000;
  rung.parts.parts = {{"matrix products", 1000 - reductions - bubble},
                      {std::string(exposed_cause(GroupKind::rdp)), reductions},
                      {"bubble", bubble}};
  return rung;
}

GroupLoad load_of(GroupKind group, std::string_view link) {
  GroupLoad load;
  load.group = group;
  load.bytes = 2.6e9;
  load.needed = to_sim_time({0.052});
  load.exposed = to_sim_time({0.014});
  load.link = link;
  load.link_bytes_per_s = 12.5e9;
  return load;
}

}  // namespace

TEST_CASE("what more GPUs lose is the part of the step that grows most, and its link", "[advise]") {
  const Rung smaller = rung_of(2, 0.91, 40, 50);
  Rung larger = rung_of(4, 0.74, 180, 150);
  const std::string text =
      "from 16 to 32 GPUs efficiency falls from 91 to 74 %: exposed all-reduce of gradients grows "
      "from 4.0 to 18 % of the step";
  CHECK(what_breaks(smaller, larger) == text);
  larger.loads = {load_of(GroupKind::tensor, "NVLink"), load_of(GroupKind::rdp, "network")};
  CHECK(what_breaks(smaller, larger) ==
        text +
            ", as 2.6 GB per GPU take 52 ms (the slowest link on their way: the network, 12.5 "
            "GB/s), and only 38 ms of them hide");
  larger.loads[1] = load_of(GroupKind::rdp, "NVLink");
  larger.loads[1].needed = to_sim_time({2});
  larger.loads[1].exposed = to_sim_time({3});
  CHECK(what_breaks(smaller, larger) ==
        text +
            ", as 2.6 GB per GPU take 2 s (the slowest link on their way: NVLink, 12.5 GB/s), "
            "and only 0 ms of them hide");
}

TEST_CASE("efficiency that stays or rises is said so, and shares with one place below ten percent",
          "[advise]") {
  CHECK(what_breaks(rung_of(1, 0.9, 0, 50), rung_of(2, 0.904, 0, 99)) ==
        "from 8 to 16 GPUs efficiency stays at 90 %");
  CHECK(what_breaks(rung_of(1, 0.8, 0, 50), rung_of(2, 0.9, 0, 99)) ==
        "from 8 to 16 GPUs efficiency goes from 80 to 90 %: bubble grows from 5.0 to 9.9 % of the "
        "step");
  CHECK(what_breaks(rung_of(1, 0.9, 0, 50), rung_of(2, 0.05, 0, 50)) ==
        "from 8 to 16 GPUs efficiency falls from 90 to 5.0 %");
}
