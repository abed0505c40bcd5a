// Checks training in NVFP4, on the ranks that mpirun starts. A CPU rounds as a GPU does, and
// multiplies in fp32.
//
// Bounds are those of rounding.h with e2m1's unit roundoff u = 2^-2. Of the two factors of a
// matmul, one that is rounded to nearest is off by 0.4 u of itself, and a gradient that is rounded
// at random by 0.8 u. Together these are 0.9 u, which is less than the 2.3 u that rounding.h
// allows.
#include <cmath>
#include <map>
#include <numeric>
#include <string>

#include "tests/agree/rounding.h"
#include "tests/agree/variants.h"
#include "tests/exec/on_ranks.h"
#include "tests/exec/small_run.h"
#include "tests/one_in.h"

using namespace meshwright::tests;

namespace {

void in_4_bits(Plan& plan) { plan.training.precision = Precision::nvfp4; }

// There are 2 x 8 rows, and 32 and 64 columns, which are multiples of 16 on each of two tensor
// ranks too.
constexpr Variant nvfp4_variants[] = {
    {{}, full},
    {{}, pruned},
    {{}, all_of<eager, unfused>},
    {{}, budget<60>},
    {{2, 1, 1}, nothing},
    {{2, 1, 1, 4, 0, 1}, zero_bubble},
    {{2, 1, 1, 4, 0, 2}, nothing},
    {{1, 2, 1}, nothing},
    {{1, 2, 1}, all_of<rows, full, pruned>},
    {{1, 2, 1}, all_of<rows, tensor_in_chunks<2>>},
    {{1, 1, 2}, nothing},
    {{1, 1, 2, 2, 1}, nothing},
    {{1, 1, 2, 2, 2}, full},
    {{1, 1, 2, 2, 3}, full},
    {{2, 2, 1, 4, 0, 2}, rows},
    {{2, 1, 2, 4, 3}, nothing},
    {{1, 2, 2, 2, 1}, rows},
};

struct Alone {
  Values begin;
  Trained in_fp32, in_nvfp4;
};

double mean(std::span<const double> of) {
  return std::accumulate(of.begin(), of.end(), 0.0) / static_cast<double>(of.size());
}

}  // namespace

TEST_CASE_ON_RANKS("nvfp4 trains alike under all degrees, and close to fp32", "[agree][mpi]") {
  World& world = test_world();
  const double u = unit_of(Precision::nvfp4);
  std::map<std::string, Alone> alone;
  for_each_variant(nvfp4_variants, world, [&](const Model& model, Plan plan) {
    Plan uncut = on_one_process(plan);
    Alone& expected = alone[std::string(name_of(model.architecture))];
    if (expected.in_nvfp4.losses.empty()) {
      expected.begin = SmallRun(model, uncut).parameters();
      expected.in_fp32 = train_alone(model, uncut);
      Plan rounded = uncut;
      in_4_bits(rounded);
      expected.in_nvfp4 = train_alone(model, rounded);
      const double difference = largest_difference(expected.in_nvfp4, expected.in_fp32);
      CHECK(difference <= loss_bound * u);
      CHECK(difference > 0);
      CHECK(difference_of_updates(expected.in_nvfp4, expected.in_fp32, expected.begin) <=
            update_bound * u);
    }
    in_4_bits(plan);
    const Trained got = train(model, plan, world);
    CHECK(largest_difference(got, expected.in_nvfp4) <= loss_bound * u);
    if (all_are_tried()) CHECK(train(model, plan, world) == got);
    if (world.rank() != 0) return;
    CHECK(difference_of_updates(got, expected.in_nvfp4, expected.begin) <= update_bound * u);
  });
}

// The random bits that round an element of a gradient depend only on the run's seed, the module and
// the element's index.
TEST_CASE_ON_RANKS("stages and recomputation round gradients with the same random bits",
                   "[agree][mpi]") {
  World& world = test_world();
  if (world.size() > 2) return;
  const Model model = eight_blocks("llama");
  Plan plan = base_plan(model, {});
  in_4_bits(plan);
  plan.training.gradient_clip = 0;  // whose norm adds up in another order
  const std::string alone = train_alone(model, plan).hash;
  Plan other = plan;
  other.training.recompute = Recompute::full;
  if (world.size() == 2) other.parallelism.pipeline = 2;
  const std::string hash = train(model, other, world).hash;
  if (world.rank() == 0) CHECK(hash == alone);
  if (world.size() > 1) return;
  plan.training.precision = Precision::bf16;
  CHECK(train_alone(model, plan).hash != alone);
}

// The model learns, because all 60 steps are on the same 8 sequences.
TEST_CASE_ON_RANKS("in nvfp4 a small model learns nearly what it learns in bf16", "[agree][mpi]") {
  if (test_world().size() > 1) return;
  const Model model = eight_blocks("llama");
  Plan plan = base_plan(model, {});
  plan.training.learning_rate = 1e-2;
  plan.training.weight_decay = 0;
  const auto losses_in = [&](Precision precision) {
    plan.training.precision = precision;
    SmallRun run(model, plan);
    std::vector<double> losses;
    for (int step = 1; step <= 60; ++step) losses.push_back(run.step_at(step, 0).loss);
    return losses;
  };
  const std::vector<double> wide = losses_in(Precision::bf16), narrow = losses_in(Precision::nvfp4);
  const std::span<const double> last(&wide[50], 10), last_narrow(&narrow[50], 10);
  INFO("from " << wide[0] << " to " << mean(last) << " in bf16, " << mean(last_narrow)
               << " in nvfp4");
  const double learned = wide[0] - mean(last);
  CHECK(learned > 0.3 * wide[0]);
  CHECK(narrow[0] - mean(last_narrow) > 0.9 * learned);
}

// Each expert has 4 sequences of 4 slots, a multiple of 16.
TEST_CASE_ON_RANKS("experts in 4 bits train close to those in bf16", "[agree][mpi]") {
  World& world = test_world();
  const Model model = small_model("mixtral");
  for (const SmallDegrees& degrees :
       {SmallDegrees{}, SmallDegrees{2, 1, 1}, SmallDegrees{1, 1, 2, 2, 1}}) {
    if (ranks_of(degrees) != world.size()) continue;
    Plan plan = base_plan(model, degrees);
    plan.training.optimizer = OptimizerKind::sgd;
    plan.training.micro_batch = 4;
    plan.training.global_batch = 16;
    plan.parallelism.expert = degrees.data;
    Plan uncut = on_one_process(plan);
    uncut.training.micro_batch = 4;
    const Trained in_fp32 = train_alone(model, uncut);
    plan.training.precision = uncut.training.precision = Precision::nvfp4;
    const Trained experts_in_bf16 = train_alone(model, uncut);
    plan.training.fp8_experts = uncut.training.fp8_experts = true;
    const Trained alone = train_alone(model, uncut);
    INFO(describe(plan));
    const double u = unit_of(Precision::nvfp4);
    CHECK(largest_difference(alone, experts_in_bf16) > 0);
    CHECK(largest_difference(alone, in_fp32) <= loss_bound * u);
    CHECK(largest_difference(train(model, plan, world), alone) <= loss_bound * u);
  }
}
