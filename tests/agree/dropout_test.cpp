// Dropout drops the same elements in any degrees, under any recomputation and in every run: one
// process and many train alike.
#include <string>
#include <vector>

#include "exec/comm/self.h"
#include "tests/agree/training.h"
#include "tests/catch.h"
#include "tests/exec/worlds.h"

using namespace meshwright;

namespace {

void nothing(Plan&) {}
void selective(Plan& plan) {
  plan.training.recompute = Recompute::selective;
  plan.training.attention = AttentionKernel::unfused;
}
void full(Plan& plan) { plan.training.recompute = Recompute::full; }
void rows(Plan& plan) { plan.parallelism.sequence_parallel = true; }
void rows_full(Plan& plan) { rows(plan), full(plan); }
void own(Plan& plan) { plan.parallelism.tensor_batch_own = true; }
void own_speed(Plan& plan) {
  own(plan);
  plan.parallelism.tensor_layout = TensorLayout::speed;
}
void gpipe(Plan& plan) { plan.parallelism.schedule = ScheduleKind::gpipe; }

struct Variant {
  SmallDegrees degrees;  // pipeline, tensor, data, micro-batches, ZeRO, virtual stages
  void (*change)(Plan& plan);
};
constexpr Variant variants[] = {
    {{1, 1, 1}, full},          {{1, 1, 1}, selective},
    {{2, 1, 1}, full},          {{2, 1, 1}, gpipe},
    {{2, 1, 1, 4, 0, 2}, full}, {{1, 2, 1}, selective},
    {{1, 2, 1}, rows_full},     {{1, 1, 2}, nothing},
    {{1, 1, 2, 4, 1}, full},    {{1, 1, 2, 4, 3}, full},
    {{2, 2, 1}, rows_full},     {{2, 2, 1, 4, 0, 2}, rows},
    {{4, 1, 1}, full},          {{1, 4, 1}, rows},
    {{1, 2, 2, 4, 2}, rows},    {{2, 1, 2, 4, 1}, selective},
    {{1, 2, 1}, own},           {{1, 2, 1}, own_speed},
    {{2, 2, 1}, own_speed},     {{1, 2, 2}, own},
};

Plan plan_of(const Model& model, const Variant& variant) {
  Plan plan = base_plan(model, variant.degrees);
  plan.training.optimizer = OptimizerKind::sgd;
  plan.training.dropout = 0.2;
  plan.training.seed = 3;
  variant.change(plan);
  return plan;
}

}  // namespace

TEST_CASE("dropout is the same under all degrees and recomputation", "[agree][mpi]") {
  World& world = test_world();
  for (const char* family : {"gpt", "llama"})
    for (const Variant& variant : variants) {
      const SmallDegrees& d = variant.degrees;
      if (d.pipeline * d.tensor * d.data != world.size()) continue;
      const Model model = eight_blocks(family);
      const Plan plan = plan_of(model, variant);
      INFO(family << " " << describe(plan));
      check_plan(model, plan, world);
    }
}

TEST_CASE("dropout gives the same bits twice, and another seed other ones", "[agree][mpi]") {
  World& world = test_world();
  const Model model = eight_blocks("gpt");
  Plan plan = plan_of(model, {{1, 1, world.size()}, nothing});
  plan.training.micro_batch = 2 / (world.size() == 4 ? 2 : 1);
  const Trained first = train(model, plan, world), again = train(model, plan, world);
  CHECK(first.losses == again.losses);
  CHECK(first.hash == again.hash);
  plan.training.dropout = 0;
  const Trained without = train(model, plan, world);
  CHECK(without.losses[0] != first.losses[0]);
}
