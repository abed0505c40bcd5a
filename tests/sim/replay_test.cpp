#include "sim/replay/replay.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "models/compiler/schedule/schedule.h"
#include "tests/catch.h"
#include "tests/sim/equal_stages.h"
#include "tests/sim/plans.h"

using namespace meshwright::tests;

namespace {

struct Rehearsal {
  Compiled compiled;
  Mesh mesh;
  Topology topology;
  ReplayResult run(const ReplayOptions& options = {}) const {
    return replay(compiled.stages, topology, options);
  }
};

Rehearsal rehearse(const Plan& plan, const Cluster& cluster) {
  return {compiled_for(small_model(), plan, cluster),
          Mesh(plan.degrees(), plan.parallelism.placement), Topology(cluster)};
}

const Instruction& instruction_of(const Program& program, const TimelineEntry& entry) {
  const Task& task = program.tasks[entry.task];
  return program.bodies[task.body].instructions[entry.instruction];
}

// Checks that every entry of a rank's stream ends before the next one begins.
void check_streams(const ReplayResult& result, const Rehearsal& rehearsal) {
  std::map<std::pair<int, int>, std::vector<std::pair<SimTime, SimTime>>> streams;
  for (const TimelineEntry& entry : result.timeline.entries) {
    const int stage = rehearsal.mesh.coordinates(entry.rank).pipeline;
    const Instruction& instruction = instruction_of(rehearsal.compiled.stages[stage], entry);
    streams[{entry.rank, static_cast<int>(instruction.stream)}].emplace_back(entry.begin,
                                                                             entry.end);
  }
  for (auto& [key, spans] : streams) {
    std::sort(spans.begin(), spans.end());
    SimTime busy = 0, free = 0;
    bool overlaps = false;
    for (const auto& [begin, end] : spans) {
      overlaps = overlaps || begin < free || end < begin;
      free = end;
      busy += end - begin;
    }
    CHECK_FALSE(overlaps);
    CHECK(busy <= result.step_time);
  }
}

std::int64_t runs_in(const Rehearsal& rehearsal) {
  std::int64_t count = 0;
  for (const Program& program : rehearsal.compiled.stages)
    for (const Task& task : program.tasks)
      for (const Instruction& instruction : program.bodies[task.body].instructions)
        count += runs(instruction, task) ? 1 : 0;
  return count;
}

void check_stage_times(const ReplayResult& result) {
  for (const StageTimes& stage : result.stages) {
    CHECK(stage.compute_busy > 0);
    CHECK(stage.bubble >= 0);
    CHECK(stage.exposed_communication >= 0);
    CHECK(stage.span <= result.step_time);
    SimTime exposed = 0;
    for (const SimTime of_group : stage.exposed_by) exposed += of_group;
    CHECK(exposed == stage.exposed_communication);
    CHECK(stage.compute_busy + stage.exposed_communication <= result.step_time);
  }
}

}  // namespace

TEST_CASE("replays of many plans hold together", "[replay]") {
  for (const MachineCase& machine : machine_cases()) {
    const Cluster cluster = machine.cluster();
    for (const PlanCase& each : plans_for(cluster.ranks())) {
      INFO(machine.name << " x" << machine.hosts << " " << each.name);
      const Rehearsal rehearsal = rehearse(each.plan, cluster);
      verify(rehearsal.compiled.stages);
      ReplayOptions options;
      options.timeline = true;
      const ReplayResult folded = rehearsal.run(options);
      CHECK(folded.step_time > 0);
      check_streams(folded, rehearsal);
      check_stage_times(folded);
      CHECK(folded.instructions == runs_in(rehearsal));
      CHECK(folded.instructions == std::ssize(folded.timeline.entries));
      CHECK(folded.bytes_sent == folded.bytes_received);
      CHECK((folded.bytes_sent > 0) == (each.plan.parallelism.pipeline > 1));

      options.fold = false;
      const ReplayResult every = rehearsal.run(options);
      CHECK(every.step_time == folded.step_time);
      CHECK(every.bytes_sent == folded.bytes_sent);
      CHECK(every.bytes_received == folded.bytes_received);
      check_streams(every, rehearsal);
      const std::int64_t ranks_per_stage = cluster.ranks() / each.plan.parallelism.pipeline;
      CHECK(every.instructions == folded.instructions * ranks_per_stage);
      for (std::size_t stage = 0; stage < folded.stages.size(); ++stage) {
        CHECK(every.stages[stage].bubble == folded.stages[stage].bubble);
        CHECK(every.stages[stage].exposed_communication ==
              folded.stages[stage].exposed_communication);
      }
    }
  }
}

TEST_CASE("more bandwidth is never slower", "[replay]") {
  for (const MachineCase& machine : machine_cases()) {
    const Cluster cluster = machine.cluster();
    int turn = 0;
    for (const PlanCase& each : plans_for(cluster.ranks())) {
      if (++turn % 3 != 0) continue;  // a third of the plans will do
      Rehearsal rehearsal = rehearse(each.plan, cluster);
      const SimTime before = rehearsal.run().step_time;
      const Topology own = rehearsal.topology;
      for (const LinkKind kind :
           {LinkKind::nvlink, LinkKind::pcie, LinkKind::uplink, LinkKind::socket, LinkKind::nic}) {
        INFO(machine.name << " x" << machine.hosts << " " << each.name << " link "
                          << static_cast<int>(kind));
        rehearsal.topology = own;
        rehearsal.topology.scale_links(kind, 2);
        CHECK(rehearsal.run().step_time <= before);
      }
    }
  }
}

TEST_CASE("ranks without streams do one thing at a time", "[replay]") {
  Cluster cluster = machine_cases()[0].cluster();
  for (const PlanCase& each : plans_for(cluster.ranks())) {
    INFO(each.name);
    cluster.machine.concurrent_streams = true;
    const SimTime with_streams = rehearse(each.plan, cluster).run().step_time;
    cluster.machine.concurrent_streams = false;
    const Rehearsal rehearsal = rehearse(each.plan, cluster);
    ReplayOptions options;
    options.timeline = true;
    const ReplayResult folded = rehearsal.run(options);
    CHECK(folded.step_time >= with_streams);
    options.fold = false;
    CHECK(rehearsal.run(options).step_time == folded.step_time);
    std::map<int, std::vector<std::pair<SimTime, SimTime>>> work;  // all but sends and receives
    for (const TimelineEntry& entry : folded.timeline.entries) {
      const int stage = rehearsal.mesh.coordinates(entry.rank).pipeline;
      const Stream stream = instruction_of(rehearsal.compiled.stages[stage], entry).stream;
      if (is_of_messages(stream)) continue;
      work[entry.rank].emplace_back(entry.begin, entry.end);
    }
    for (auto& [rank, spans] : work) {
      std::sort(spans.begin(), spans.end());
      for (std::size_t i = 1; i < spans.size(); ++i)
        if (spans[i].first < spans[i - 1].second) FAIL("two at a time on rank " << rank);
    }
  }
}

TEST_CASE("equal stages with free communication idle as the formulas say", "[replay]") {
  Cluster cluster{load_machine("p4d.24xlarge"), 1, 8, {}, 0.0};
  cluster.machine.nvlink.link_bandwidth_bytes_per_s = 1e30;
  cluster.machine.host_latency = {0, 0};
  cluster.machine.nvlink.group = {};
  for (const int p : {1, 2, 4, 8})
    for (const int m : {1, 2, 4, 16})
      for (const ScheduleKind schedule :
           {ScheduleKind::one_f_one_b, ScheduleKind::zero_bubble, ScheduleKind::zero_bubble_v,
            ScheduleKind::interleaved_zero_bubble, ScheduleKind::dualpipe_v}) {
        INFO("p " << p << " m " << m);
        const bool splits = schedule_info(schedule).splits_backwards;
        const bool turns = schedule_info(schedule).most_chunks > 1;
        const bool in_groups = schedule_info(schedule).in_groups;
        if (splits && m < p) continue;  // the formulas hold from p micro-batches on
        if (turns && (p == 1 || m < 2 * p - 1 || (in_groups && m % p != 0))) continue;
        std::vector<Program> stages;
        for (int stage = 0; stage < p; ++stage)
          stages.push_back(equal_stage(stage, p, m, schedule, turns ? 2 : 1));
        const ReplayResult result = replay(stages, Topology(cluster));
        REQUIRE(std::ssize(result.stages) == p);
        // A micro-batch has three equal pieces of work: forward, backward and weight gradients.
        // 1f1b idles p - 1 times all three. zero_bubble idles p - 1 times forward + backward -
        // weights, which is one piece, and the others p - 1 times that of one of their two chunks.
        const double idle = (turns ? 0.5 : splits ? 1 : 3) * (p - 1.0);
        for (const StageTimes& stage : result.stages)
          CHECK(static_cast<double>(stage.bubble) / static_cast<double>(stage.span) ==
                Approx(idle / (3 * m + idle)).margin(1e-9));
      }
}

TEST_CASE("zero_bubble trains a model with less idle time than 1f1b in as many slots", "[replay]") {
  const Cluster cluster = machine_cases()[0].cluster();
  Plan plan;
  plan.parallelism.pipeline = 8;
  plan.training.micro_batch = 8;
  plan.training.global_batch = 8 * 16;
  plan.training.sequence_length = 128;
  const auto bubble = [](const ReplayResult& result) {
    double sum = 0;
    for (const StageTimes& stage : result.stages)
      sum += static_cast<double>(stage.bubble) / static_cast<double>(stage.span);
    return sum / static_cast<double>(result.stages.size());
  };
  const auto rehearse_with = [&](ScheduleKind schedule) {
    plan.parallelism.schedule = schedule;
    return Rehearsal{compiled_for(small_model(8), plan, cluster), Mesh(plan.degrees(), "DPT"),
                     Topology(cluster)};
  };
  const Rehearsal whole = rehearse_with(ScheduleKind::one_f_one_b);
  const Rehearsal split = rehearse_with(ScheduleKind::zero_bubble);
  CHECK(bubble(split.run()) < bubble(whole.run()));
  CHECK(split.run().step_time < whole.run().step_time);
  for (const Program& program : split.compiled.stages) CHECK(program.memory.slots[0].slots == 8);
  CHECK(whole.compiled.stages[0].memory.slots[0].slots == 8);
}

TEST_CASE("the wire of a send is exposed, waiting for a peer's compute is bubble", "[replay]") {
  // Two stages run one micro-batch: F0 | wire | F1 B1 | wire | B0, with B = 2 F. Stage 0 idles wire
  // + 3F + wire, of which the second wire is exposed. Stage 1 idles F + wire, and 2F + wire at the
  // end, of which the first wire is exposed.
  Cluster cluster{load_machine("p4d.24xlarge"), 1, 2, {}, 0.0};
  cluster.machine.host_latency = {1, 0};  // one second for each message
  const std::vector<Program> stages{equal_stage(0, 2, 1), equal_stage(1, 2, 1)};
  const ReplayResult result = replay(stages, Topology(cluster));
  const double forward = to_seconds(result.stages[0].compute_busy).value / 3;
  for (const StageTimes& stage : result.stages)
    CHECK(to_seconds(stage.exposed_communication).value == Approx(1).epsilon(1e-4));
  CHECK(to_seconds(result.step_time).value == Approx(6 * forward + 2).epsilon(1e-4));
  for (const StageTimes& stage : result.stages)
    CHECK(to_seconds(stage.bubble).value == Approx(3 * forward + 1).epsilon(1e-4));
}

namespace {

std::ptrdiff_t entries_that_take_time(const Timeline& timeline) {
  return std::ranges::count_if(timeline.entries, [](const TimelineEntry& entry) {
    return entry.end - entry.begin >= 1000;  // picoseconds
  });
}

}  // namespace

TEST_CASE("a trace names every instruction that took time", "[replay]") {
  const Cluster cluster = machine_cases()[0].cluster();
  for (const PlanCase& each : plans_for(8)) {
    if (each.plan.parallelism.pipeline != 2) continue;
    const Rehearsal rehearsal = rehearse(each.plan, cluster);
    ReplayOptions options;
    options.timeline = true;
    const ReplayResult result = rehearsal.run(options);
    std::vector<int> stage_of_rank;
    for (int rank = 0; rank < 8; ++rank)
      stage_of_rank.push_back(rehearsal.mesh.coordinates(rank).pipeline);
    const auto trace = nlohmann::json::parse(
        to_chrome_trace(result.timeline, rehearsal.compiled.stages, stage_of_rank));
    std::ptrdiff_t entries = 0;
    double last = 0;
    bool names_a_module = false;
    for (const auto& event : trace["traceEvents"]) {
      if (event["ph"] != "X") continue;
      ++entries;
      last = std::max(last, event["ts"].get<double>() + event["dur"].get<double>());
      names_a_module = names_a_module || event["name"] == "linear transformer.h.0.mlp.c_fc";
    }
    CHECK(entries == entries_that_take_time(result.timeline));
    CHECK(last == Approx(static_cast<double>(result.step_time) * 1e-6));  // ps -> us
    CHECK(names_a_module);
  }
}

TEST_CASE("a trace shows what was predicted beside what was measured", "[replay]") {
  const Cluster cluster = machine_cases()[0].cluster();
  for (const PlanCase& each : plans_for(8)) {
    if (each.plan.parallelism.pipeline != 2) continue;
    const Rehearsal rehearsal = rehearse(each.plan, cluster);
    ReplayOptions options;
    options.timeline = true;
    const Timeline timeline = rehearsal.run(options).timeline;
    std::vector<int> stage_of_rank;
    for (int rank = 0; rank < 8; ++rank)
      stage_of_rank.push_back(rehearsal.mesh.coordinates(rank).pipeline);
    const auto trace = nlohmann::json::parse(
        to_chrome_trace(timeline, rehearsal.compiled.stages, stage_of_rank, {}, timeline));
    std::ptrdiff_t measured = 0, predicted = 0, named = 0;
    for (const auto& event : trace["traceEvents"]) {
      if (event["ph"] == "X") ++(event["pid"] <= 8 ? measured : predicted);
      if (event["name"] == "process_name")
        named += event["args"]["name"].get<std::string>().ends_with(
            event["pid"] <= 8 ? "measured" : "predicted");
    }
    CHECK(measured == entries_that_take_time(timeline));
    CHECK(predicted == measured);
    CHECK(named > 0);
  }
}
