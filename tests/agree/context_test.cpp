// Ranks that share each sequence train the model that one process trains.
#include "tests/agree/training.h"
#include "tests/catch.h"
#include "tests/exec/worlds.h"

using namespace meshwright;

namespace {

struct Variant {
  const char* name;
  int context;
  SmallDegrees degrees;
  void (*change)(Plan& plan);
};

void nothing(Plan&) {}
void gathers(Plan& plan) { plan.parallelism.context_gathers = true; }
void rows(Plan& plan) { plan.parallelism.sequence_parallel = true; }
void selective(Plan& plan) { plan.training.recompute = Recompute::selective; }
void full(Plan& plan) { plan.training.recompute = Recompute::full; }
void gathers_full(Plan& plan) {
  gathers(plan);
  full(plan);
}
void zero_bubble(Plan& plan) { plan.parallelism.schedule = ScheduleKind::zero_bubble; }
void zero_bubble_full(Plan& plan) {
  zero_bubble(plan);
  full(plan);
}
void in_pairs(Plan& plan) { plan.parallelism.shard = 2; }
void spread(Plan& plan) { plan.parallelism.placement = "spread"; }

constexpr Variant variants[] = {
    {"ring of 2", 2, {}, nothing},
    {"all-gather of 2", 2, {}, gathers},
    {"ring of 2, selective", 2, {}, selective},
    {"ring of 2, full", 2, {}, full},
    {"all-gather of 2, full", 2, {}, gathers_full},
    {"ring of 2, ZeRO 1", 2, {1, 1, 1, 4, 1}, nothing},
    {"ring of 2, ZeRO 3", 2, {1, 1, 1, 4, 3}, nothing},
    {"ring of 4", 4, {}, nothing},
    {"all-gather of 4", 4, {}, gathers},
    {"ring of 4, ZeRO 2 in pairs", 4, {1, 1, 1, 4, 2}, in_pairs},
    {"with tensor", 2, {1, 2, 1}, nothing},
    {"with tensor, shares of rows", 2, {1, 2, 1}, rows},
    {"with tensor, spread", 2, {1, 2, 1}, spread},
    {"with stages", 2, {2, 1, 1}, nothing},
    {"with stages, full", 2, {2, 1, 1}, full},
    {"with stages, zero_bubble", 2, {2, 1, 1}, zero_bubble},
    {"with stages, zero_bubble, full", 2, {2, 1, 1}, zero_bubble_full},
    {"with interleaved stages", 2, {2, 1, 1, 4, 0, 2}, nothing},
    {"with data", 2, {1, 1, 2}, nothing},
    {"with data, ZeRO 1", 2, {1, 1, 2, 4, 1}, nothing},
    {"with data, ZeRO 2", 2, {1, 1, 2, 4, 2}, nothing},
    {"with data, ZeRO 3", 2, {1, 1, 2, 4, 3}, nothing},
    {"with data, ZeRO 3 in pairs", 2, {1, 1, 2, 4, 3}, in_pairs},
};

Plan plan_of(const Model& model, const Variant& variant) {
  Plan plan = base_plan(model, variant.degrees);
  plan.training.optimizer = OptimizerKind::sgd;
  plan.parallelism.context = variant.context;
  variant.change(plan);
  return plan;
}

int ranks_of(const Variant& variant) {
  const SmallDegrees& d = variant.degrees;
  return variant.context * d.pipeline * d.tensor * d.data;
}

}  // namespace

TEST_CASE("ranks that share sequences train like one process", "[agree][mpi]") {
  World& world = test_world();
  int turn = 0;
  for (const Variant& variant : variants)
    for (const char* family : {"gpt", "llama"}) {
      if (ranks_of(variant) != world.size()) continue;
      if (world.size() == 4 && ++turn % 4 > 1) continue;  // in turn: many ranks are slow
      const Model model = variant.degrees.pipeline > 1 ? eight_blocks(family) : small_model(family);
      const Plan plan = plan_of(model, variant);
      INFO(family << ": " << variant.name << ": " << describe(plan));
      check_plan(model, plan, world);
    }
}

TEST_CASE("ALiBi, packed heads and grouped queries see places in the sequence", "[agree][mpi]") {
  World& world = test_world();
  if (world.size() == 1) return;
  for (const char* family : {"bloom", "mpt", "llama"}) {
    Model model = small_model(family);
    if (family == std::string("llama")) model.kv_heads = 2;
    const Plan plan = plan_of(model, {"", world.size(), {}, nothing});
    INFO(family);
    check_plan(model, plan, world);
  }
}

TEST_CASE("the ring gives the same bits run after run", "[agree][mpi]") {
  World& world = test_world();
  if (world.size() == 1) return;
  const Model model = small_model("gpt");
  const Plan plan = plan_of(model, {"", world.size(), {}, nothing});
  const Trained once = train(model, plan, world), again = train(model, plan, world);
  CHECK(once.losses == again.losses);
  if (world.rank() == 0) CHECK(once.hash == again.hash);
}
