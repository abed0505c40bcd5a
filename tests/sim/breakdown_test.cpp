// Tests the parts of a step's time and of its memory.
#include "sim/predict/breakdown.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "models/compiler/schedule/schedule.h"
#include "sim/replay/link_uses.h"
#include "sim/replay/memory_over_time.h"
#include "tests/catch.h"
#include "tests/sim/plans.h"

using namespace meshwright::tests;

TEST_CASE("the parts of a step sum to its time on every stage", "[breakdown]") {
  for (const MachineCase& machine : machine_cases()) {
    const Cluster cluster = machine.cluster();
    for (const PlanCase& each : plans_for(cluster.ranks())) {
      INFO(machine.name << " x" << machine.hosts << " " << each.name);
      const Compiled compiled = compiled_for(small_model(), each.plan, cluster);
      const Prediction prediction = predict(compiled, cluster);
      const std::vector<StageBreakdown> stages = breakdown(prediction);
      CHECK(stages.size() == compiled.stages.size());
      double launch = 0;
      for (const StageBreakdown& stage : stages) {
        const double exposed = std::accumulate(stage.exposed_s.begin(), stage.exposed_s.end(), 0.0);
        CHECK(stage.compute_s + stage.launch_s + exposed + stage.bubble_s + stage.idle_s ==
              Approx(prediction.step_time_s));
        CHECK(stage.compute_s > 0);
        launch += stage.launch_s;
        const auto of = [&](GroupKind kind) {
          return stage.exposed_s[static_cast<std::size_t>(kind)];
        };
        if (each.plan.parallelism.tensor > 1) CHECK(of(GroupKind::tensor) > 0);
        if (each.plan.parallelism.pipeline == 1) CHECK(of(GroupKind::pipeline) == 0);
        CHECK(of(GroupKind::none) == 0);  // nothing is offloaded
      }
      CHECK(launch > 0);  // kernels of a model this small are shorter than their launches
      Cluster free_launches = cluster;
      free_launches.host_launch_us = 0;
      const Prediction faster = predict(compiled, free_launches);
      for (const StageBreakdown& stage : breakdown(faster)) CHECK(stage.launch_s == 0);
    }
  }
}

TEST_CASE("what is live in a step fits into the arena, and in the end only what persists is left",
          "[breakdown]") {
  for (const MachineCase& machine : machine_cases()) {
    const Cluster cluster = machine.cluster();
    for (const PlanCase& each : plans_for(cluster.ranks())) {
      INFO(machine.name << " x" << machine.hosts << " " << each.name);
      const Compiled compiled = compiled_for(small_model(), each.plan, cluster);
      Timeline timeline;
      predict(compiled, cluster, {.timeline = &timeline});
      const Mesh mesh(compiled.plan.degrees(), compiled.plan.parallelism.placement);
      for (const Program& program : compiled.stages) {
        std::vector<TimelineEntry> own;
        for (const TimelineEntry& entry : timeline.entries)
          if (mesh.coordinates(entry.rank).pipeline == program.stage) own.push_back(entry);
        const std::vector<MemoryPoint> points = memory_over_time(program, own);
        REQUIRE(!points.empty());
        std::int64_t most = 0;
        bool negative = false;
        for (const MemoryPoint& point : points) {
          most = std::max(most, point.total());
          for (const std::int64_t bytes : point.bytes) negative = negative || bytes < 0;
        }
        CHECK_FALSE(negative);
        CHECK(most <= program.memory.arena_bytes);
        // If weight gradients are deferred, the whole slot is held until they are done, although
        // most of it is no longer needed.
        const bool waits = schedule_info(each.plan.parallelism.schedule).splits_backwards;
        CHECK(most > program.memory.arena_bytes / 5 * (waits ? 3 : 4));
        std::int64_t persistent = 0;
        for (const Buffer& buffer : program.memory.buffers)
          if (buffer.region == Region::persistent ||
              (buffer.region == Region::owned && buffer.owner.includes(program.fullest)))
            persistent += buffer.bytes;
        CHECK(points.back().total() == persistent);
      }
    }
  }
}

namespace {

// Checks a trace as Perfetto reads it (tests/tools/perfetto runs Perfetto itself). Perfetto rounds
// begin and duration to nanoseconds, each by itself. It drops a slice that begins within another
// slice of its thread and ends after it, and draws a slice without duration in a row of its own.
// Names and sort orders must belong to threads that exist. The main thread of a process is the one
// with the process's number.
void check_as_perfetto_reads(const nlohmann::json& trace) {
  std::set<int> processes, sorted_processes;
  std::set<std::pair<int, int>> threads, sorted_threads, used;
  std::map<std::pair<int, int>, std::vector<std::pair<long long, long long>>> slices;
  for (const auto& event : trace["traceEvents"]) {
    const int process = event["pid"];
    CHECK(process > 0);
    const std::pair thread(process, event.value("tid", -1));
    if (event["name"] == "process_name") CHECK(processes.insert(process).second);
    if (event["name"] == "process_sort_index") CHECK(sorted_processes.insert(process).second);
    if (event["name"] == "thread_name") {
      CHECK(threads.insert(thread).second);
      CHECK((thread.second == process) == (event["args"]["name"] == "compute"));
    }
    if (event["name"] == "thread_sort_index") CHECK(sorted_threads.insert(thread).second);
    if (event["ph"] != "X") continue;
    used.insert(thread);
    const long long begin = std::llround(event["ts"].get<double>() * 1000);
    CHECK(event["dur"] > 0);
    slices[thread].emplace_back(begin, begin + std::llround(event["dur"].get<double>() * 1000));
  }
  CHECK(processes == sorted_processes);
  CHECK(threads == sorted_threads);
  CHECK(std::ranges::includes(threads, used));
  for (auto& [thread, lane] : slices) {
    CHECK(thread.second > 0);
    std::ranges::sort(lane);
    for (std::size_t i = 1; i < lane.size(); ++i) CHECK(lane[i].first >= lane[i - 1].second);
  }
}

}  // namespace

TEST_CASE("a trace has a lane and a counter for each kind of link that is used", "[breakdown]") {
  Cluster cluster{load_machine("p4d.24xlarge"), 2, 4, {}, {}};
  Plan plan;
  plan.parallelism.pipeline = 2, plan.parallelism.tensor = 2, plan.parallelism.data = 2;
  plan.parallelism.placement = "DPT";  // tensor and pipeline inside a host, data over the hosts
  plan.training.micro_batch = 2;
  plan.training.global_batch = 16;
  plan.training.sequence_length = 128;
  const Compiled compiled = compiled_for(small_model(), plan, cluster);
  const Mesh mesh(plan.degrees(), plan.parallelism.placement);
  Timeline timeline;
  predict(compiled, cluster, {.timeline = &timeline});
  const std::vector<LinkUse> uses = link_uses(timeline, compiled.stages, mesh, Topology(cluster));
  std::vector<int> stage_of_rank;
  for (int rank = 0; rank < mesh.ranks(); ++rank)
    stage_of_rank.push_back(mesh.coordinates(rank).pipeline);
  const auto trace =
      nlohmann::json::parse(to_chrome_trace(timeline, compiled.stages, stage_of_rank, uses));
  std::map<std::pair<int, int>, std::string> threads;
  for (const auto& event : trace["traceEvents"])
    if (event["name"] == "thread_name")
      threads[{event["pid"], event["tid"]}] = event["args"]["name"];
  std::set<std::string> names;
  for (const auto& [id, name] : threads) names.insert(name);
  for (const char* name : {"compute", "tensor_comm", "link NVLink", "link PCIe", "link network"})
    CHECK(names.contains(name));
  std::map<std::pair<int, int>, double> free;
  std::map<std::pair<int, std::string>, double> rate;
  double most = 0;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "C") {
      most = std::max(most, event["args"]["GB/s"].get<double>());
      rate[{event["pid"], event["name"]}] = event["args"]["GB/s"];
    }
    if (event["ph"] != "X" || event["cat"] != "link") continue;
    double& end = free[{event["pid"], event["tid"]}];
    CHECK(event["ts"].get<double>() >= end - 1e-6);
    end = event["ts"].get<double>() + event["dur"].get<double>();
  }
  CHECK(most > 0);
  for (const auto& [counter, last] : rate) CHECK(last == 0);
  check_as_perfetto_reads(trace);
  // Only data parallelism crosses the hosts. It sends the gradients, and little in addition.
  double sent = 0;
  for (const LinkUse& use : uses)
    if (use.rank == 0 && use.link == "network") sent += use.bytes;
  std::int64_t gradients = 0;  // ring over 2: 2 (2 - 1) / 2 of all that is reduced
  for (const Bucket& bucket : compiled.stages[0].buckets) gradients += bucket.elements * 4;
  CHECK(sent == Approx(static_cast<double>(gradients)).epsilon(0.01));
}
