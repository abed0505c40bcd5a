// Offloaded activations: fewer copies on the device, the rest in host memory, and every access to
// either in an order that streams and waits enforce.
#include <algorithm>
#include <map>
#include <string>

#include "models/lower/lower.h"
#include "tests/catch.h"
#include "tests/models/plans.h"

using namespace meshwright;

namespace {

// micro_batch 2 x sequence 8 x hidden 32 x 4 bytes: the input of a block.
constexpr std::int64_t input = 2 * 8 * 32 * 4;

}  // namespace

TEST_CASE("windows hold what is on its way, host memory the rest", "[models][lower][offload]") {
  const Model model = small_model("gpt");
  // GPipe on 2 stages, 8 micro-batches: stage 0 has two blocks, of which each keeps its input.
  Plan plan = offloading_plan(model, {.pipeline = 2, .micro_batches = 8}, Offload::none, 0);
  plan.parallelism.schedule = ScheduleKind::gpipe;
  const MemoryPlan kept = lower_small(model, plan)[0].memory;
  plan.parallelism.offload = Offload::activations;
  plan.parallelism.offload_horizon = 2;
  const MemoryPlan sent = lower_small(model, plan)[0].memory;
  CHECK(sent.slots[0].slots == 8);
  CHECK(sent.slots[0].stride == kept.slots[0].stride - 2 * input);
  CHECK(sent.windows[0].stride == 2 * input);
  // Forward: the newest and the one that leaves; backward: two to come and the one that is read.
  // Around the turn the last ones stay while the first to come back are loaded.
  CHECK(sent.windows[0].slots >= 3);
  CHECK(sent.windows[0].slots <= 5);
  CHECK(sent.host[0].stride == 2 * input);
  CHECK(sent.host_bytes == sent.host[0].slots * 2 * input);
  CHECK(sent.arena_bytes == kept.arena_bytes - (8 - sent.windows[0].slots) * 2 * input);
  CHECK(kept.host_bytes == 0);
  // With a longer horizon they come back earlier and lie there longer.
  plan.parallelism.offload_horizon = 4;
  CHECK(lower_small(model, plan)[0].memory.windows[0].slots > sent.windows[0].slots);
}

TEST_CASE("what would come back at once never leaves", "[models][lower][offload]") {
  Model model = small_model("gpt");
  model.layers = 8;  // at least one on every stage
  // 1F1B: on the last stage every backward task follows its forward task.
  const Plan plan =
      offloading_plan(model, {.pipeline = 4, .micro_batches = 8}, Offload::activations, 1);
  const std::vector<Program> stages = lower_small(model, plan);
  CHECK(stages[3].memory.host_bytes == 0);
  for (const Task& task : stages[3].tasks) CHECK(!task.offloaded);
  CHECK(stages[0].memory.host_bytes > 0);
  CHECK(stages[0].memory.windows[0].slots < stages[0].memory.slots[0].slots);
  // A single micro-batch: nothing to save.
  const Program alone =
      lower_small(model, offloading_plan(model, {.micro_batches = 1}, Offload::activations, 1))[0];
  CHECK(alone.memory.host_bytes == 0);
}

TEST_CASE("layers take turns in as many places as the horizon says", "[models][lower][offload]") {
  Model model = small_model("gpt");
  model.layers = 8;
  const Plan none = offloading_plan(model, {.micro_batches = 2}, Offload::none, 0);
  const MemoryPlan kept = lower_small(model, none)[0].memory;
  for (const int horizon : {1, 2, 3, 5}) {
    const Plan plan = offloading_plan(model, {.micro_batches = 2}, Offload::layers, horizon);
    const MemoryPlan sent = lower_small(model, plan)[0].memory;
    const std::int64_t places = std::max(2, horizon);
    CHECK(sent.host_bytes == 8 * input);
    CHECK(sent.arena_bytes == kept.arena_bytes - (8 - places) * input);
  }
}

TEST_CASE("where nothing is recomputed, tasks keep all and layers send what blocks keep",
          "[models][lower][offload]") {
  const Model model = small_model("gpt");
  for (const Offload offload : {Offload::activations, Offload::layers}) {
    Plan plan = offloading_plan(model, {.pipeline = 2, .micro_batches = 4}, offload, 1);
    plan.training.recompute = Recompute::none;
    for (const Program& program : lower_small(model, plan)) {
      CHECK((program.memory.host_bytes > 0) == (offload == Offload::layers));
      CHECK(program.tasks.size() == 2 + 2 * 4);
    }
  }
}
