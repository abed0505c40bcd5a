// Checks that the simulator plays the same instructions of a Program that the engine runs, and the
// same memory.
#include <set>

#include "exec/comm/self.h"
#include "hwprofiles/load.h"
#include "sim/predict/predict.h"
#include "sim/replay/replay.h"
#include "tests/catch.h"
#include "tests/exec/small_run.h"

using namespace meshwright::tests;

namespace {

using Played = std::set<std::pair<int, int>>;  // task, instruction

Played of(const Timeline& timeline) {
  Played played;
  for (const TimelineEntry& entry : timeline.entries)
    CHECK(played.emplace(entry.task, entry.instruction).second);
  return played;
}

Played executed(const Model& model, const Plan& plan, const std::vector<Program>& stages) {
  const auto world = make_self_world({});
  SmallRun run(model, plan, *world, stages, true);
  run.step(1);
  return of(run.runtime.timeline());
}

Played simulated(const std::vector<Program>& stages) {
  Cluster cluster;
  cluster.machine = load_machine("p4d.24xlarge");
  ReplayOptions options;
  options.timeline = true;
  return of(replay(stages, Topology(cluster), options).timeline);
}

}  // namespace

TEST_CASE("the engine allocates what the simulator plans, in 16 bits too", "[agree]") {
  const Precision precision = GENERATE(Precision::fp32, Precision::fp16, Precision::bf16);
  for (OptimizerKind optimizer : {OptimizerKind::adamw, OptimizerKind::lamb}) {
    const Model model = small_model("gpt");
    Plan plan = small_plan(model, {});
    plan.training.precision = precision;
    plan.training.optimizer = optimizer;
    const std::vector<Program> stages = lower_small(model, plan);
    const auto world = make_self_world({});
    const SmallRun run(model, plan, *world, stages);
    Cluster cluster;
    cluster.machine.gpu.kind = DeviceKind::cpu;
    const StageMemory planned = stage_memory(stages, cluster)[0];
    CHECK(planned.library_bytes == 0);
    CHECK(run.runtime.arena_bytes() + run.runtime.scratch_bytes() == planned.peak_bytes);
    CHECK((run.runtime.scratch_bytes() > 0) == (precision != Precision::fp32));
    // In 16 bits a parameter takes 2 + 4 + 8 + 4 bytes: its 16-bit weight, the fp32 master, two
    // fp32 moments and the gradient. Training in fp32 without separate masters takes 4 + 8 + 4
    // bytes.
    const auto bytes = [&](MemoryClass cls) {
      return double(stages[0].memory.class_bytes[std::size_t(cls)]);
    };
    double elements = 0;
    for (const Bucket& bucket : stages[0].buckets) elements += double(bucket.elements);
    const double states = bytes(MemoryClass::parameters) + bytes(MemoryClass::gradients) +
                          bytes(MemoryClass::optimizer);
    CHECK(states == Approx(elements * (precision == Precision::fp32 ? 16 : 18)).epsilon(0.01));
  }
}

TEST_CASE("the simulator plays exactly the instructions that the engine runs", "[agree]") {
  for (const char* family : {"gpt", "llama"})
    for (Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
      const Model model = small_model(family);
      Plan plan = small_plan(model, {});
      plan.training.recompute = recompute;
      if (recompute == Recompute::full) {  // with a loss scale and norms of parameters
        plan.training.precision = Precision::fp16;
        plan.training.optimizer = OptimizerKind::lamb;
      }
      const std::vector<Program> stages = lower_small(model, plan);
      INFO(family << " " << describe(plan));
      const Played engine = executed(model, plan, stages), simulator = simulated(stages);
      CHECK(engine == simulator);
      // There are 4 micro-batches, forward and backward, and the step's begin and end.
      CHECK(engine.size() > 4 * 2 + 2);
    }
}

TEST_CASE("both play the copies of what is offloaded", "[agree]") {
  const Model model = small_model("gpt");
  for (const Offload offload : {Offload::activations, Offload::layers, Offload::optimizer}) {
    Plan plan = small_plan(model, {.micro_batches = 6});
    plan.training.recompute = Recompute::full;
    plan.parallelism.schedule = ScheduleKind::gpipe;
    plan.parallelism.offload = offload;
    plan.parallelism.offload_horizon = 2;
    const std::vector<Program> stages = lower_small(model, plan);
    INFO(offload_names()[static_cast<std::size_t>(offload)]);
    const Played engine = executed(model, plan, stages);
    CHECK(engine == simulated(stages));
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
