// Checks that overlapping a tensor group's communication with compute changes no bit of the
// training. Chunks may change the rounding, because BLAS gets matrices with other numbers of rows
// and may choose a kernel that sums in another order.
#include <vector>

#include "tests/agree/variants.h"
#include "tests/exec/on_ranks.h"

using namespace meshwright::tests;

namespace {

constexpr Variant tensor_overlap_variants[] = {
    {{1, 2, 1}, nothing},
    {{1, 2, 1}, rows},
    {{1, 2, 1}, all_of<rows, full>},
    {{1, 2, 1}, all_of<rows, own_batches>},
    {{1, 2, 1}, all_of<rows, pruned>},
    {{1, 2, 1}, eager},
    {{1, 2, 1}, all_of<rows, eager, drops>},
    {{1, 2, 1}, layout_of<TensorLayout::speed>},
    {{1, 2, 1}, all_of<layout_of<TensorLayout::memory>, pruned>},
    {{1, 4, 1}, nothing},
    {{1, 4, 1}, all_of<rows, drops>},
    {{2, 2, 1}, all_of<rows, full>},
    {{2, 2, 1, 4, 0, 2}, rows},
    {{2, 2, 1}, zero_bubble},
    {{2, 2, 1}, all_of<rows, zero_bubble>},
    {{1, 2, 2, 4, 3}, rows},
    {{1, 2, 2, 4, 2}, nothing},
};

void in_fp8(Plan& plan) { plan.training.precision = Precision::fp8; }

constexpr Variant in_8_bits[] = {
    {{1, 2, 1}, in_fp8},
    {{1, 2, 1}, all_of<in_fp8, rows, full>},
    {{1, 2, 1}, all_of<in_fp8, rows, pruned>},
    {{2, 2, 1, 4, 0, 2}, all_of<in_fp8, rows>},
    {{1, 2, 2, 4, 3}, all_of<in_fp8, rows>},
};

}  // namespace

TEST_CASE_ON_RANKS("tensor communication beside compute changes no bit", "[agree][mpi]") {
  World& world = test_world();
  const auto check = [&](const Model& model, Plan plan) {
    const Trained before = train(model, plan, world);
    tensor_overlaps(plan);
    const Trained after = train(model, plan, world);
    CHECK(after.losses == before.losses);
    CHECK(after.hash == before.hash);
  };
  for_each_variant(tensor_overlap_variants, world, check);
  for_each_variant(in_8_bits, world, check);
}

TEST_CASE_ON_RANKS("products in chunks train alike", "[agree][mpi]") {
  World& world = test_world();
  for_each_variant(tensor_overlap_variants, world, [&](const Model& model, const Plan& plan) {
    const Trained before = train(model, plan, world);
    for (const Change change : {tensor_in_chunks<2>, tensor_in_chunks<4>}) {
      Plan chunks = plan;
      change(chunks);
      const Trained after = train(model, chunks, world);
      compare_losses(after, before);
      if (world.rank() == 0) compare_each(after, before);
      CHECK(train(model, chunks, world).hash == after.hash);
    }
  });
}
