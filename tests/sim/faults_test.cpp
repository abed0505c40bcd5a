// Tests slow ranks and degraded links in a replay.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/replay/replay.h"
#include "tests/catch.h"
#include "tests/sim/equal_stages.h"
#include "tests/sim/plans.h"

using namespace meshwright::tests;

namespace {

struct Rehearsal {
  Compiled compiled;
  Mesh mesh;

  ReplayResult run(const Cluster& cluster, const ReplayOptions& options = {}) const {
    return replay(compiled.stages, Topology(cluster), options);
  }
};

// Partitions the stages for a cluster without faults, because faults come later.
Rehearsal rehearse(const Plan& plan, const Cluster& cluster) {
  return {compiled_for(small_model(), plan, cluster),
          Mesh(plan.degrees(), plan.parallelism.placement)};
}

Faults::SlowRanks slow_rank(int rank, double factor) { return {rank, {}, factor}; }
Faults::SlowRanks slow_host(int host, double factor) { return {{}, host, factor}; }

struct FaultCase {
  std::string name;
  Faults faults;
};

std::vector<FaultCase> fault_cases(const Cluster& cluster) {
  const int last_host = cluster.hosts - 1, last_rank = cluster.ranks() - 1;
  std::vector<FaultCase> cases(7);
  cases[0].name = "one slow rank";
  cases[0].faults.slow_ranks = {slow_rank(1, 1.5)};
  cases[1].name = "two ranks, unequally slow";
  cases[1].faults.slow_ranks = {slow_rank(0, 1.25), slow_rank(last_rank, 3)};
  cases[2].name = "a slow host with a slower rank";
  cases[2].faults.slow_ranks = {slow_host(last_host, 1.1), slow_rank(last_rank, 2)};
  cases[3].name = "NVLink of one host";
  cases[3].faults.degraded_links = {{FaultyLink::nvlink, last_host, 0.3}};
  cases[4].name = "PCIe of one host";
  cases[4].faults.degraded_links = {{FaultyLink::pcie, 0, 0.2}};
  cases[5].name = "the network of one host";
  cases[5].faults.degraded_links = {{FaultyLink::network, last_host, 0.25}};
  cases[6].name = "all at once";
  cases[6].faults.slow_ranks = {slow_rank(2, 1.3), slow_host(0, 1.2)};
  cases[6].faults.degraded_links = {{FaultyLink::network, {}, 0.5},
                                    {FaultyLink::nvlink, 0, 0.5},
                                    {FaultyLink::nvlink, last_host, 0.75}};
  return cases;
}

// Returns the faults with every entry made worse.
Faults worse(Faults faults) {
  for (Faults::SlowRanks& slow : faults.slow_ranks) slow.factor *= 1.5;
  for (Faults::DegradedLink& degraded : faults.degraded_links) degraded.factor *= 0.5;
  return faults;
}

}  // namespace

TEST_CASE("with faults too, folded ranks take the time of all ranks", "[faults]") {
  for (const MachineCase& machine : machine_cases()) {
    Cluster cluster = machine.cluster();
    const std::vector<FaultCase> faults = fault_cases(cluster);
    std::size_t turn = 0;
    for (const PlanCase& each : plans_for(cluster.ranks())) {
      const Rehearsal rehearsal = rehearse(each.plan, machine.cluster());
      for (std::size_t i = 0; i < 2; ++i) {
        const FaultCase& fault = faults[turn++ % faults.size()];
        INFO(machine.name << " x" << machine.hosts << " " << each.name << ": " << fault.name);
        cluster.faults = fault.faults;
        ReplayOptions options;
        const ReplayResult folded = rehearsal.run(cluster, options);
        options.fold = false;
        const ReplayResult every = rehearsal.run(cluster, options);
        CHECK(folded.step_time == every.step_time);
        CHECK(folded.bytes_sent == every.bytes_sent);
        CHECK(folded.instructions <= every.instructions);
        for (std::size_t stage = 0; stage < folded.stages.size(); ++stage) {
          CHECK(folded.stages[stage].compute_busy == every.stages[stage].compute_busy);
          CHECK(folded.stages[stage].bubble == every.stages[stage].bubble);
          CHECK(folded.stages[stage].exposed_communication ==
                every.stages[stage].exposed_communication);
          CHECK(folded.stages[stage].exposed_by == every.stages[stage].exposed_by);
        }
      }
    }
  }
}

TEST_CASE("a fault never makes a step faster, a worse one neither", "[faults]") {
  for (const MachineCase& machine : machine_cases()) {
    Cluster cluster = machine.cluster();
    const std::vector<FaultCase> faults = fault_cases(cluster);
    std::size_t turn = 0;
    for (const PlanCase& each : plans_for(cluster.ranks())) {
      const Rehearsal rehearsal = rehearse(each.plan, machine.cluster());
      const FaultCase& fault = faults[turn++ % faults.size()];
      INFO(machine.name << " x" << machine.hosts << " " << each.name << ": " << fault.name);
      cluster.faults = {};
      const SimTime healthy = rehearsal.run(cluster).step_time;
      cluster.faults = fault.faults;
      const SimTime faulty = rehearsal.run(cluster).step_time;
      cluster.faults = worse(fault.faults);
      CHECK(faulty >= healthy);
      CHECK(rehearsal.run(cluster).step_time >= faulty);
    }
  }
}

TEST_CASE("a stage that computes twice as slowly sets the pace of the pipeline", "[faults]") {
  // Two stages run F and B = 2F for every micro-batch, and communication is free. If the second
  // stage has half the speed, the step takes F, then m times 2F + 4F there without a pause, then
  // the last B of the first stage.
  Cluster cluster{load_machine("p4d.24xlarge"), 1, 2, {}, 0.0};
  cluster.machine.nvlink.link_bandwidth_bytes_per_s = 1e30;
  cluster.machine.host_latency = {0, 0};
  cluster.machine.nvlink.group = {};
  for (const int m : {1, 2, 8}) {
    const std::vector<Program> stages{equal_stage(0, 2, m), equal_stage(1, 2, m)};
    cluster.faults = {};
    const ReplayResult healthy = replay(stages, Topology(cluster));
    const double forward = static_cast<double>(healthy.stages[0].compute_busy) / (3 * m);
    CHECK(static_cast<double>(healthy.step_time) == Approx((3 * m + 3) * forward));
    cluster.faults.slow_ranks = {slow_rank(1, 2)};
    const ReplayResult slow = replay(stages, Topology(cluster));
    CHECK(static_cast<double>(slow.step_time) == Approx((1 + 6 * m + 2) * forward));
    CHECK(slow.stages[0].compute_busy == healthy.stages[0].compute_busy);
    CHECK(static_cast<double>(slow.stages[1].compute_busy) ==
          Approx(2.0 * static_cast<double>(healthy.stages[1].compute_busy)));
  }
}

TEST_CASE("one slow rank of a tensor group holds up the others, who wait", "[faults]") {
  Cluster cluster{load_machine("p4d.24xlarge"), 1, 4, {}, {}};
  Plan plan;
  plan.parallelism.tensor = 4;
  plan.training.global_batch = plan.training.micro_batch = 4;
  plan.training.sequence_length = 128;
  const Rehearsal rehearsal = rehearse(plan, cluster);
  const ReplayResult healthy = rehearsal.run(cluster);
  cluster.faults.slow_ranks = {slow_rank(0, 2), slow_rank(1, 2), slow_rank(2, 2), slow_rank(3, 2)};
  const ReplayResult all = rehearsal.run(cluster);
  cluster.faults.slow_ranks = {slow_rank(2, 2)};
  const ReplayResult one = rehearsal.run(cluster);
  // Between two collectives all ranks wait for the slow one, so the step is as long as if all were
  // slow.
  CHECK(one.step_time == all.step_time);
  CHECK(one.step_time > healthy.step_time);
  // The mean busy time grows by a quarter, because one of four ranks works twice as long.
  CHECK(static_cast<double>(one.stages[0].compute_busy) ==
        Approx(1.25 * static_cast<double>(healthy.stages[0].compute_busy)));
  CHECK(one.stages[0].bubble > all.stages[0].bubble);
  CHECK(one.instructions == 2 * healthy.instructions);  // two classes
}

TEST_CASE("a degraded link slows what crosses it, and nothing else", "[faults]") {
  const Cluster healthy{load_machine("p4d.24xlarge"), 2, 4, {}, {}};
  Plan plan;
  plan.parallelism.pipeline = 2, plan.parallelism.tensor = 4;  // a stage on each host
  plan.training.global_batch = 16;
  plan.training.micro_batch = 2;
  plan.training.sequence_length = 128;
  const Rehearsal rehearsal = rehearse(plan, healthy);
  const auto time = [&](std::vector<Faults::DegradedLink> links) {
    Cluster cluster = healthy;
    cluster.faults.degraded_links = std::move(links);
    return rehearsal.run(cluster).step_time;
  };
  const SimTime sound = time({});
  const SimTime first = time({{FaultyLink::nvlink, 0, 0.01}});
  const SimTime both = time({{FaultyLink::nvlink, {}, 0.01}});
  CHECK(sound < first);
  CHECK(first < both);
  CHECK(time({{FaultyLink::nvlink, 0, 0.01}, {FaultyLink::nvlink, 1, 0.01}}) == both);
  // If two entries apply, the worse one counts.
  CHECK(time({{FaultyLink::nvlink, {}, 0.01}, {FaultyLink::nvlink, 0, 0.5}}) == both);
  // A message between the hosts is as slow as the worse end.
  CHECK(time({{FaultyLink::network, 1, 0.01}}) == time({{FaultyLink::network, {}, 0.01}}));
  CHECK(time({{FaultyLink::network, 1, 0.01}}) > sound);
  CHECK(time({{FaultyLink::nvlink, 0, 1}}) == sound);
}
