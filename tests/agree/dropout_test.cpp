// Checks that dropout drops the same elements under any degrees and any recomputation, and in every
// run, so that one process and many train alike.
#include "tests/agree/variants.h"
#include "tests/exec/on_ranks.h"

using namespace meshwright::tests;

namespace {

constexpr Variant dropout_variants[] = {
    {{1, 1, 1}, full},
    {{1, 1, 1}, all_of<selective, unfused>},
    {{2, 1, 1}, full},
    {{2, 1, 1}, gpipe},
    {{2, 1, 1, 4, 0, 2}, full},
    {{1, 2, 1}, all_of<selective, unfused>},
    {{1, 2, 1}, all_of<rows, full>},
    {{1, 1, 2}, nothing},
    {{1, 1, 2, 4, 1}, full},
    {{1, 1, 2, 4, 3}, full},
    {{2, 2, 1}, all_of<rows, full>},
    {{2, 2, 1, 4, 0, 2}, rows},
    {{4, 1, 1}, full},
    {{1, 4, 1}, rows},
    {{1, 2, 2, 4, 2}, rows},
    {{2, 1, 2, 4, 1}, all_of<selective, unfused>},
    {{1, 2, 1}, own_batches},
    {{1, 2, 1}, all_of<own_batches, layout_of<TensorLayout::speed>>},
    {{2, 2, 1}, all_of<own_batches, layout_of<TensorLayout::speed>>},
    {{1, 2, 1}, layout_of<TensorLayout::memory>},
    {{2, 2, 1}, all_of<own_batches, layout_of<TensorLayout::memory>, full>},
    {{1, 1, 1, 4, 0, 1, 2}, full},
    {{1, 1, 1, 4, 0, 1, 2}, gathers},
    {{1, 2, 1, 4, 0, 1, 2}, all_of<rows, full>},
    {{1, 1, 1, 4, 0, 1, 4}, nothing},
    {{1, 2, 1, 4, 0, 1, 2}, layout_of<TensorLayout::memory>},
    {{1, 2, 2}, own_batches},
};

void drop(Plan& plan) {
  plan.training.dropout = 0.2;
  plan.training.seed = 3;
}

}  // namespace

TEST_CASE_ON_RANKS("dropout is the same under all degrees and recomputation", "[agree][mpi]") {
  World& world = test_world();
  for_each_variant(dropout_variants, world, [&](const Model& model, Plan plan) {
    drop(plan);
    check_plan(model, plan, world);
  });
}

TEST_CASE_ON_RANKS("dropout gives the same bits twice, and another seed other ones",
                   "[agree][mpi]") {
  World& world = test_world();
  const Model model = eight_blocks("gpt");
  Plan plan = base_plan(model, {1, 1, world.size()});
  drop(plan);
  const Trained first = train(model, plan, world), again = train(model, plan, world);
  CHECK(first.losses == again.losses);
  CHECK(first.hash == again.hash);
  plan.training.dropout = 0;
  const Trained without = train(model, plan, world);
  CHECK(without.losses[0] != first.losses[0]);
}
