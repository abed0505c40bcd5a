// The zero-bubble schedule trains what 1f1b trains, bit for bit: every gradient sums the same
// micro-batches in the same order.
#include "tests/agree/training.h"
#include "tests/catch.h"
#include "tests/exec/worlds.h"

using namespace meshwright;

namespace {

struct Variant {
  const char* name;
  SmallDegrees degrees;
  void (*change)(Plan& plan);
};

void nothing(Plan&) {}
void rows(Plan& plan) { plan.parallelism.sequence_parallel = true; }
void nothing_overlaps(Plan& plan) {
  plan.parallelism.overlap_gradients = plan.parallelism.overlap_parameters = false;
}
void tensor_overlaps(Plan& plan) { plan.parallelism.overlap_tensor = true; }
void few_active(Plan& plan) { plan.parallelism.active_microbatches = 2; }
void selective(Plan& plan) { plan.training.recompute = Recompute::selective; }
void full(Plan& plan) { plan.training.recompute = Recompute::full; }
void pruned(Plan& plan) {
  plan.training.recompute = Recompute::full;
  plan.training.compiler = CompilerLevel::full;
}
void pruned_rows(Plan& plan) {
  pruned(plan);
  rows(plan);
}
void unfused(Plan& plan) { plan.training.attention = AttentionKernel::unfused; }

constexpr Variant variants[] = {
    {"alone", {1, 1, 1}, nothing},
    {"2 stages", {2, 1, 1}, nothing},
    {"2 stages, selective", {2, 1, 1}, selective},
    {"2 stages, full", {2, 1, 1}, full},
    {"2 replicas", {1, 1, 2}, nothing},
    {"4 stages", {4, 1, 1}, nothing},
    {"4 stages, pruned", {4, 1, 1}, pruned},
    {"4 stages, few active", {4, 1, 1}, few_active},
    {"tensor", {2, 2, 1}, nothing},
    {"tensor, shares of rows", {2, 2, 1}, rows},
    {"tensor, shares of rows, pruned", {2, 2, 1}, pruned_rows},
    {"tensor overlaps", {2, 2, 1}, tensor_overlaps},
    {"tensor, unfused", {2, 2, 1}, unfused},
    {"data", {2, 1, 2}, nothing},
    {"data, nothing overlaps", {2, 1, 2}, nothing_overlaps},
    {"ZeRO 1", {2, 1, 2, 4, 1}, nothing},
    {"ZeRO 1, full", {2, 1, 2, 4, 1}, full},
};

}  // namespace

TEST_CASE("zero_bubble trains bit for bit like 1f1b", "[agree][mpi]") {
  World& world = test_world();
  for (const char* family : {"gpt", "llama"})
    for (const Variant& variant : variants) {
      const SmallDegrees& d = variant.degrees;
      if (d.pipeline * d.tensor * d.data != world.size()) continue;
      const Model model = eight_blocks(family);
      Plan plan = base_plan(model, d);
      variant.change(plan);
      INFO(family << ": " << variant.name << ": " << describe(plan));
      const Trained whole = train(model, plan, world);
      plan.parallelism.schedule = ScheduleKind::zero_bubble;
      const Trained split = train(model, plan, world);
      CHECK(split.losses == whole.losses);
      if (world.rank() == 0) CHECK(split.hash == whole.hash);
    }
}

TEST_CASE("zero_bubble trains like one process", "[agree][mpi]") {
  World& world = test_world();
  if (world.size() == 1) return;
  const Model model = eight_blocks("gpt");
  Plan plan = base_plan(model, {world.size(), 1, 1});
  plan.training.optimizer = OptimizerKind::sgd;
  plan.parallelism.schedule = ScheduleKind::zero_bubble;
  check_plan(model, plan, world);
}
