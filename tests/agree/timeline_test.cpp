// One Program, two interpreters: what the simulator plays is what the engine runs, instruction by
// instruction.
#include <set>

#include "exec/backends/cpu/cpu_backend.h"
#include "exec/comm/self.h"
#include "exec/runtime/runtime.h"
#include "hwprofiles/load.h"
#include "sim/replay/replay.h"
#include "tests/catch.h"
#include "tests/models/plans.h"

using namespace meshwright;

namespace {

using Played = std::set<std::pair<int, int>>;  // task, instruction

Played of(const Timeline& timeline) {
  Played played;
  for (const TimelineEntry& entry : timeline.entries)
    CHECK(played.emplace(entry.task, entry.instruction).second);
  return played;
}

Played executed(const Model& model, const Plan& plan, const std::vector<Program>& stages) {
  const Mesh mesh(plan.degrees(), plan.parallelism.placement);
  const auto world = make_self_world({});
  const auto backend = make_cpu_backend(1);
  Runtime runtime(stages, plan, mesh, *world, *backend, {1, model.layers, true});
  LoaderOptions data;
  data.sequence_length = plan.training.sequence_length;
  data.vocabulary = model.vocabulary;
  Loader loader(data);
  runtime.step(1, 0, loader);
  return of(runtime.timeline());
}

Played simulated(const Plan& plan, const std::vector<Program>& stages) {
  Cluster cluster;
  cluster.machine = load_machine("p4d.24xlarge");
  const Mesh mesh(plan.degrees(), plan.parallelism.placement);
  ReplayOptions options;
  options.timeline = true;
  return of(replay(stages, plan, mesh, Topology(cluster), options).timeline);
}

}  // namespace

TEST_CASE("the simulator plays exactly the instructions that the engine runs", "[agree]") {
  for (const char* family : {"gpt", "llama"})
    for (Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
      const Model model = small_model(family);
      Plan plan = small_plan(model, {});
      plan.training.recompute = recompute;
      const std::vector<Program> stages = lower_small(model, plan);
      INFO(family << " " << describe(plan));
      const Played engine = executed(model, plan, stages), simulator = simulated(plan, stages);
      CHECK(engine == simulator);
      // 4 micro-batches forward and backward, the step's begin and end
      CHECK(engine.size() > 4 * 2 + 2);
    }
}

TEST_CASE("both play the copies of what is offloaded", "[agree]") {
  const Model model = small_model("gpt");
  for (const char* offload : {"activations", "layers"}) {
    Plan plan = small_plan(model, {.micro_batches = 6});
    plan.training.recompute = Recompute::full;
    plan.parallelism.schedule = ScheduleKind::gpipe;
    plan.parallelism.offload = offload;
    plan.parallelism.offload_horizon = 2;
    const std::vector<Program> stages = lower_small(model, plan);
    INFO(offload);
    const Played engine = executed(model, plan, stages);
    CHECK(engine == simulated(plan, stages));
    int copies = 0;
    for (const auto& [task, instruction] : engine) {
      const Body& body = stages[0].bodies[static_cast<std::size_t>(
          stages[0].tasks[static_cast<std::size_t>(task)].body)];
      const Stream stream = body.instructions[static_cast<std::size_t>(instruction)].stream;
      copies += stream == Stream::copy_out;
      copies -= stream == Stream::copy_in;
    }
    CHECK(copies == 0);  // what goes out comes back
    CHECK(stages[0].memory.host_bytes > 0);
  }
}
