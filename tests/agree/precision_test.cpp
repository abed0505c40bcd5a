// Checks training in 16 bits, and with LAMB, on the ranks that mpirun starts.
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "exec/comm/self.h"
#include "tests/agree/rounding.h"
#include "tests/agree/variants.h"
#include "tests/exec/on_ranks.h"
#include "tests/exec/small_run.h"

using namespace meshwright::tests;

namespace {

void narrow_sums(Plan& plan) {
  plan.training.gradient_reduce = storage_of(plan.training.precision);
}

constexpr Variant precision_variants[] = {
    {{}, full},
    {{}, unfused},
    {{}, narrow_sums},
    {{}, all_of<eager, unfused>},
    {{}, all_of<eager, narrow_sums>},
    {{1, 2, 1}, all_of<eager, unfused, rows>},
    {{2, 1, 1}, nothing},
    {{1, 2, 1}, nothing},
    {{1, 2, 1}, rows},
    {{1, 1, 2}, narrow_sums},
    {{1, 1, 2, 2, 1}, nothing},
    {{1, 1, 2, 2, 2}, nothing},
    {{1, 1, 2, 2, 3}, nothing},
    {{2, 1, 1, 4, 0, 2}, nothing},
    {{2, 2, 1}, full},
    {{2, 1, 2, 4, 3}, nothing},
    {{1, 2, 2, 2, 1}, nothing},
    {{1, 2, 2, 2, 2}, all_of<rows, narrow_sums>},
    {{1, 1, 4, 1, 1}, in_pairs},
    {{1, 1, 4, 1, 3}, nothing},
};

// Results of training a model on one process.
struct Alone {
  Values begin;
  Trained in_fp32, in_precision;
};

Alone train_alone(const Model& model, Precision precision) {
  Plan plan = on_one_process(base_plan(model, {}));
  plan.training.optimizer = OptimizerKind::sgd;
  Alone alone;
  alone.begin = SmallRun(model, plan).parameters();
  alone.in_fp32 = meshwright::tests::train_alone(model, plan);
  store_in(precision, plan);
  alone.in_precision = meshwright::tests::train_alone(model, plan);
  return alone;
}

void check_precision(Precision precision) {
  World& world = test_world();
  const double u = unit_of(precision);
  std::map<Architecture, Alone> alone;
  for_each_variant(precision_variants, world, [&](const Model& model, Plan plan) {
    Alone& expected = alone[model.architecture];
    if (expected.begin.empty()) {
      expected = train_alone(model, precision);
      const double difference = largest_difference(expected.in_precision, expected.in_fp32);
      CHECK(difference <= loss_bound * u);
      CHECK(difference > 0);  // it is another precision
    }
    store_in(precision, plan);
    const Trained got = train(model, plan, world), again = train(model, plan, world);
    CHECK(largest_difference(got, expected.in_precision) <= loss_bound * u);
    CHECK(got.losses == again.losses);
    if (world.rank() != 0) return;
    CHECK(got.hash == again.hash);
    CHECK(difference_of_updates(got, expected.in_precision, expected.begin) <= update_bound * u);
  });
}

}  // namespace

TEST_CASE_ON_RANKS("bf16 trains alike under all degrees, and close to fp32", "[agree][mpi]") {
  check_precision(Precision::bf16);
}

TEST_CASE_ON_RANKS("fp16 trains alike under all degrees, and close to fp32", "[agree][mpi]") {
  check_precision(Precision::fp16);
}

// Masters that are kept as remainders have the same values as those in fp32, in half the memory. So
// training is equal to the bit under all degrees and optimizers.
TEST_CASE_ON_RANKS("masters kept as remainders train as those in fp32, to the bit",
                   "[agree][mpi]") {
  World& world = test_world();
  for_each_variant(precision_variants, world, [&](const Model& model, Plan plan) {
    if (plan.training.compiler == CompilerLevel::none) return;
    store_in(Precision::bf16, plan);
    for (const OptimizerKind optimizer : {OptimizerKind::adamw, OptimizerKind::lamb}) {
      plan.training.optimizer = optimizer;
      plan.training.master_weights = MasterWeights::fp32;
      const Trained whole = train(model, plan, world);
      plan.training.master_weights = MasterWeights::remainders;
      const Trained parts = train(model, plan, world);
      CHECK(parts == whole);
    }
  });
}

// A value that is rounded once per step is rounded identically wherever it is stored.
TEST_CASE_ON_RANKS("moments in bf16 and weights without masters train alike under all degrees",
                   "[agree][mpi]") {
  World& world = test_world();
  const double u = unit_of(Precision::bf16);
  std::map<Architecture, Trained> alone;
  for_each_variant(precision_variants, world, [&](const Model& model, Plan plan) {
    store_in(Precision::bf16, plan);
    plan.training.learning_rate = 0.01;  // what is rounded away of smaller steps is most of them
    Trained& expected = alone[model.architecture];
    const bool first = expected.losses.empty();
    Trained with_masters;
    if (first) with_masters = train_alone(model, on_one_process(plan));
    plan.training.master_weights = MasterWeights::none;
    plan.training.moments = Dtype::bf16;
    if (first) {
      expected = train_alone(model, on_one_process(plan));
      CHECK(largest_difference(expected, with_masters) > 0);  // it is another way to keep them
    }
    const Trained got = train(model, plan, world);
    CHECK(largest_difference(got, expected) <= loss_bound * u);
    CHECK(got.losses == train(model, plan, world).losses);
  });
}

// The random rounding of a moment depends only on the element's offset in the whole parameter.
TEST_CASE_ON_RANKS("moments rounded at random train alike under all degrees", "[agree][mpi]") {
  World& world = test_world();
  const double u = unit_of(Precision::bf16);
  std::map<Architecture, Trained> alone;
  for_each_variant(precision_variants, world, [&](const Model& model, Plan plan) {
    store_in(Precision::bf16, plan);
    plan.training.learning_rate = 0.01;
    plan.training.moments = Dtype::bf16;
    Trained& expected = alone[model.architecture];
    if (expected.losses.empty()) {
      const Trained nearest = train_alone(model, on_one_process(plan));
      plan.training.moments_at_random = true;
      expected = train_alone(model, on_one_process(plan));
      CHECK(largest_difference(expected, nearest) > 0);
    }
    plan.training.moments_at_random = true;
    const Trained got = train(model, plan, world);
    CHECK(largest_difference(got, expected) <= loss_bound * u);
    CHECK(got == train(model, plan, world));
    // Other buckets, and ranks that hold other parts of states, sum the same gradients, so each
    // element has the same bits. (Pairs that share states add in another order.)
    plan.training.optimizer = OptimizerKind::adamw;
    const Trained by_adamw = train(model, plan, world);
    Plan cut = plan;
    cut.parallelism.reduce_bucket_bytes = 8'192;
    CHECK(train(model, cut, world).parameters == by_adamw.parameters);
    if (plan.parallelism.zero_stage != 1 || plan.parallelism.shard > 1) return;
    cut.parallelism.zero_stage = 0;
    CHECK(train(model, cut, world).parameters == by_adamw.parameters);
  });
}

TEST_CASE_ON_RANKS("LAMB's trust is that of whole parameters, whatever the cut", "[agree][mpi]") {
  World& world = test_world();
  for_each_variant(precision_variants, world, [&](const Model& model, Plan plan) {
    plan.training.optimizer = OptimizerKind::lamb;
    plan.training.epsilon = 1e-3;  // key biases, whose true gradient is zero, stay where they are
    check_plan(model, plan, world);
  });
}

// The loss scale begins too high, and all ranks must skip the same steps. One rounding decides when
// a gradient overflows, so one process may skip one step more or less.
TEST_CASE_ON_RANKS("all ranks skip the same steps", "[agree][mpi]") {
  World& world = test_world();
  const Model model = eight_blocks("gpt");
  const SmallDegrees degrees = world.size() == 1   ? SmallDegrees{}
                               : world.size() == 2 ? SmallDegrees{2, 1, 1}
                                                   : SmallDegrees{1, 2, 2, 2, 1};
  const auto skipped_by = [&](const Plan& plan, World& ranks) {
    SmallRun run(model, plan, ranks);
    StepResult result;
    std::int64_t history = 0;
    for (int step = 1; step <= parity_steps; ++step) {
      result = run.step(step);
      CHECK(std::isfinite(result.loss));
      history = 2 * history + result.was_skipped;
    }
    CHECK_FALSE(result.was_skipped);
    for (const std::int64_t other : run.runtime.gather_of_all(history)) CHECK(other == history);
    return result.skipped;
  };
  Plan plan = base_plan(model, degrees);
  plan.training.optimizer = OptimizerKind::sgd;
  plan.training.precision = Precision::fp16;  // the scale begins at 2^32
  const std::int64_t skipped = skipped_by(plan, world);
  CHECK(skipped > 5);
  const auto one = make_self_world({});
  CHECK(std::abs(skipped - skipped_by(on_one_process(plan), *one)) <= 1);
}
