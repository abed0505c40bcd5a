// Where the time and the memory of a step go.
#include "sim/predict/breakdown.h"

#include <algorithm>
#include <numeric>

#include "sim/replay/memory_over_time.h"
#include "tests/catch.h"
#include "tests/sim/plans.h"

using namespace meshwright;

TEST_CASE("the parts of a step sum to its time on every stage", "[breakdown]") {
  for (const MachineCase& machine : machine_cases()) {
    const Cluster cluster = machine.cluster();
    for (const PlanCase& each : plans_for(cluster.ranks())) {
      INFO(machine.name << " x" << machine.hosts << " " << each.name);
      const Prepared prepared = prepare(small_model(), each.plan, cluster);
      const Prediction prediction = predict(prepared, cluster);
      const std::vector<StageBreakdown> stages = breakdown(prepared, cluster, prediction);
      CHECK(stages.size() == prepared.stages.size());
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
      const Prediction faster = predict(prepared, free_launches);
      for (const StageBreakdown& stage : breakdown(prepared, free_launches, faster))
        CHECK(stage.launch_s == 0);
    }
  }
}

TEST_CASE("what is live in a step fits into the arena, and in the end only what persists is left",
          "[breakdown]") {
  for (const MachineCase& machine : machine_cases()) {
    const Cluster cluster = machine.cluster();
    for (const PlanCase& each : plans_for(cluster.ranks())) {
      INFO(machine.name << " x" << machine.hosts << " " << each.name);
      const Prepared prepared = prepare(small_model(), each.plan, cluster);
      Timeline timeline;
      predict(prepared, cluster, false, &timeline);
      const Mesh mesh(prepared.plan.degrees(), prepared.plan.parallelism.placement);
      for (const Program& program : prepared.stages) {
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
        CHECK(most > program.memory.arena_bytes / 5 * 4);
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
