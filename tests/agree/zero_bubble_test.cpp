// Checks that the zero-bubble schedule trains bit for bit like 1f1b, because every gradient sums
// the same micro-batches in the same order.
#include "tests/agree/variants.h"
#include "tests/exec/on_ranks.h"

using namespace meshwright::tests;

namespace {

constexpr Variant zero_bubble_variants[] = {
    {{1, 1, 1}, nothing},
    {{2, 1, 1}, nothing},
    {{2, 1, 1}, selective},
    {{2, 1, 1}, full},
    {{2, 1, 1}, pruned},
    {{2, 1, 1}, all_of<pruned, rows_apart>},
    {{1, 1, 2}, nothing},
    {{4, 1, 1}, nothing},
    {{4, 1, 1}, all_of<full, pruned>},
    {{4, 1, 1}, few_active},
    {{2, 2, 1}, nothing},
    {{2, 2, 1}, rows},
    {{2, 2, 1}, all_of<full, pruned, rows>},
    {{2, 2, 1}, tensor_overlaps},
    {{2, 2, 1}, unfused},
    {{2, 1, 2}, nothing},
    {{2, 1, 2}, nothing_overlaps},
    {{2, 1, 2, 4, 1}, nothing},
    {{2, 1, 2, 4, 1}, full},
};

}  // namespace

TEST_CASE_ON_RANKS("zero_bubble trains bit for bit like 1f1b", "[agree][mpi]") {
  World& world = test_world();
  for_each_variant(zero_bubble_variants, world, [&](const Model& model, Plan plan) {
    plan.training.optimizer = OptimizerKind::adamw;
    const Trained whole = train(model, plan, world);
    zero_bubble(plan);
    const Trained split = train(model, plan, world);
    CHECK(split.losses == whole.losses);
    if (world.rank() == 0) CHECK(split.hash == whole.hash);
  });
}

TEST_CASE_ON_RANKS("zero_bubble trains like one process", "[agree][mpi]") {
  World& world = test_world();
  if (world.size() == 1) return;
  for (const char* family : {"gpt", "bert"})
    for (const Change change :
         {Change(nothing), Change(pruned), Change(all_of<pruned, rows_apart>)}) {
      const Model model = eight_blocks(family);
      Plan plan = base_plan(model, {world.size(), 1, 1});
      plan.training.optimizer = OptimizerKind::sgd;
      zero_bubble(plan);
      change(plan);
      INFO(family << ": " << describe(plan));
      check_plan(model, plan, world);
    }
}

namespace {

constexpr Variant vee_variants[] = {
    {{2, 1, 1, 4, 0, 2}, nothing},
    {{2, 1, 1, 4, 0, 2}, selective},
    {{2, 1, 1, 4, 0, 2}, all_of<full, pruned>},
    {{2, 1, 1, 4, 0, 2}, few_active},
    {{2, 1, 1, 2, 0, 2}, nothing},
    {{4, 1, 1, 4, 0, 2}, nothing},
    {{4, 1, 1, 8, 0, 2}, all_of<full, pruned>},
    {{4, 1, 1, 8, 0, 2}, few_active},
    {{2, 2, 1, 4, 0, 2}, rows},
    {{2, 2, 1, 4, 0, 2}, all_of<pruned, rows, tensor_overlaps>},
    {{2, 1, 2, 4, 0, 2}, nothing_overlaps},
    {{2, 1, 2, 4, 1, 2}, nothing},
    {{2, 1, 2, 4, 2, 2}, reduced_last},
    {{2, 1, 1, 4, 0, 2, 2}, nothing},
};

}  // namespace

TEST_CASE_ON_RANKS("schedules there and back train like one process", "[agree][mpi]") {
  for (const Change schedule : {Change(zero_bubble_v), Change(dualpipe_v)})
    for_each_variant(vee_variants, test_world(), [&](const Model& model, Plan plan) {
      schedule(plan);
      check_plan(model, plan, test_world());
    });
}

// Without tied embeddings, no gradient is summed over stages, so the order of sums is the same.
TEST_CASE_ON_RANKS("schedules there and back train bit for bit like interleaved", "[agree][mpi]") {
  World& world = test_world();
  if (world.size() == 1) return;
  Model model = eight_blocks("llama");
  model.tied_embeddings = false;
  Plan plan = base_plan(model, {world.size(), 1, 1, 8, 0, 2});
  plan.training.micro_batch = 1;
  const Trained whole = train(model, plan, world);
  for (const Change schedule : {Change(zero_bubble_v), Change(dualpipe_v)}) {
    schedule(plan);
    INFO(describe(plan));
    const Trained split = train(model, plan, world);
    CHECK(split.losses == whole.losses);
    if (world.rank() == 0) CHECK(split.hash == whole.hash);
  }
}

namespace {

constexpr Variant interleaved_variants[] = {
    {{2, 1, 1, 4, 0, 2}, nothing},
    {{2, 1, 1, 4, 0, 2}, selective},
    {{2, 1, 1, 8, 0, 2}, all_of<full, pruned>},
    {{2, 1, 1, 8, 0, 2}, few_active},
    {{4, 1, 1, 8, 0, 2}, nothing},
    {{4, 1, 1, 8, 0, 2}, all_of<pruned, rows_apart>},
    {{2, 2, 1, 4, 0, 2}, all_of<rows, tensor_overlaps>},
    {{2, 1, 2, 4, 1, 2}, nothing},
    {{2, 1, 2, 4, 2, 2}, reduced_last},
};

}  // namespace

TEST_CASE_ON_RANKS("interleaved_zero_bubble trains bit for bit like interleaved", "[agree][mpi]") {
  World& world = test_world();
  for_each_variant(interleaved_variants, world, [&](const Model& model, Plan plan) {
    plan.parallelism.schedule = ScheduleKind::interleaved;
    const Trained whole = train(model, plan, world);
    interleaved_zero_bubble(plan);
    const Trained split = train(model, plan, world);
    CHECK(split.losses == whole.losses);
    if (world.rank() == 0) CHECK(split.hash == whole.hash);
  });
}
