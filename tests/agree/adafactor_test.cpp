// Checks that adafactor trains as on one process however a model is split. Its factors must be
// those of whole matrices.
#include "tests/agree/variants.h"
#include "tests/exec/on_ranks.h"

using namespace meshwright::tests;

namespace {

void by_adafactor(Plan& plan) {
  plan.training.optimizer = OptimizerKind::adafactor;
  plan.training.adafactor.eps1 = 1e-6;  // key biases, whose true gradient is zero, stay
}
void sized(Plan& plan) {
  by_adafactor(plan);
  plan.training.adafactor.scale_parameter = plan.training.adafactor.relative_step = true;
}
void owned(Plan& plan) {
  by_adafactor(plan);
  plan.parallelism.shard_whole = true;
}

constexpr Variant adafactor_variants[] = {
    {{1, 1, 2, 4, 0}, by_adafactor},
    {{1, 1, 2, 4, 1}, sized},
    {{1, 1, 2, 4, 1}, owned},
    {{1, 1, 2, 4, 2}, by_adafactor},
    {{1, 1, 2, 4, 3}, by_adafactor},
    {{1, 2, 1, 4, 0}, sized},
    {{1, 2, 1, 4, 0}, all_of<by_adafactor, rows>},
    {{1, 2, 1, 4, 0}, all_of<by_adafactor, layout_of<TensorLayout::speed>>},
    {{1, 2, 1, 4, 0}, all_of<by_adafactor, layout_of<TensorLayout::memory>>},
    {{1, 2, 1, 4, 0}, all_of<by_adafactor, eager, unfused>},
    {{2, 1, 1, 4, 0}, all_of<by_adafactor, zero_bubble>},
    {{1, 1, 1, 4, 0, 1, 2}, by_adafactor},
    {{1, 2, 2, 4, 3}, all_of<sized, rows>},
    {{1, 2, 2, 4, 1}, all_of<owned, rows>},
    {{2, 1, 2, 4, 1}, by_adafactor},
    {{2, 2, 1, 4, 0, 2}, by_adafactor},
    {{1, 1, 4, 2, 3}, all_of<by_adafactor, in_pairs>},
};

}  // namespace

TEST_CASE_ON_RANKS("adafactor trains like on one process", "[agree][mpi]") {
  World& world = test_world();
  for_each_variant(adafactor_variants, world, [&](const Model& model, const Plan& plan) {
    const Trained& expected = train_alone(model, on_one_process(plan));
    const Trained got = train(model, plan, world);
    compare_losses(got, expected);
    if (world.rank() == 0) compare_all(got, expected);
  });
}

TEST_CASE_ON_RANKS("adafactor keeps the factors of matrices and the moments of the rest",
                   "[agree][mpi]") {
  World& world = test_world();
  if (world.size() != 1) return;
  const Model model = small_model("gpt");
  Plan plan = base_plan(model, {});
  by_adafactor(plan);
  const Program program = lower_small(model, plan)[0];
  std::int64_t expected = 0;
  for (const StageParameter& member : program.parameters) {
    const Shape& shape = member.parameter.shape;
    const bool is_matrix = shape.rank == 2;
    CHECK(program.buckets[static_cast<std::size_t>(member.bucket)].factored == is_matrix);
    if (is_matrix) expected += 4 * (shape[0] + shape[1]);
  }
  for (const Bucket& bucket : program.buckets) {
    CHECK(bucket.first_moment.buffer < 0);
    CHECK((bucket.second_moment.buffer < 0) == bucket.factored);
    if (!bucket.factored) expected += 4 * bucket.elements;
  }
  expected += static_cast<std::int64_t>(16 * program.parameters.size());  // squared norms
  CHECK(program.memory.class_bytes[static_cast<std::size_t>(MemoryClass::optimizer)] >= expected);
  CHECK(program.memory.class_bytes[static_cast<std::size_t>(MemoryClass::optimizer)] <=
        expected + 256 * 8);
}
