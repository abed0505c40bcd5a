// Checks the loss of a held-out batch: it is the same however the model is split, without dropout,
// and the evaluation does not change the training.
#include <cmath>

#include "models/core/error.h"
#include "tests/agree/variants.h"
#include "tests/exec/on_ranks.h"
#include "tests/message_of.h"

using namespace meshwright::tests;

namespace {

constexpr int steps = 3;
constexpr std::int64_t held_out = 1000;  // position of its first sequence

constexpr Variant evaluation_variants[] = {
    {{1, 1, 1}, drops},
    {{1, 1, 1}, all_of<drops, full, pruned>},
    {{1, 1, 1}, all_of<drops, eager, unfused>},
    {{2, 1, 1}, drops},
    {{2, 1, 1}, all_of<drops, zero_bubble>},
    {{2, 1, 1, 4, 0, 2}, all_of<drops, full>},
    {{1, 2, 1}, all_of<drops, unfused>},
    {{1, 2, 1}, all_of<drops, rows, full>},
    {{1, 2, 1}, all_of<drops, layout_of<TensorLayout::memory>>},
    {{1, 1, 2}, drops},
    {{1, 1, 2, 4, 1}, all_of<drops, full>},
    {{1, 1, 2, 4, 2}, all_of<drops, reduced_each>},
    {{1, 1, 2, 4, 3}, drops},
    {{1, 1, 2, 4, 3}, all_of<drops, reduced_last, keeps_gathered>},
    {{1, 1, 1, 4, 0, 1, 2}, drops},
    {{2, 2, 1}, all_of<drops, rows, full>},
    {{2, 1, 2, 4, 3}, drops},
    {{2, 2, 1, 4, 0, 2}, all_of<drops, rows>},
    {{1, 2, 2, 4, 3}, all_of<drops, own_batches>},
    {{4, 1, 1}, all_of<drops, gpipe>},
};

struct Evaluated {
  Trained trained;
  std::vector<double> evaluations;  // before the first step, and after every step
};

Evaluated train_and_evaluate(SmallRun& run) {
  Evaluated result;
  const auto evaluate = [&] {
    result.evaluations.push_back(run.runtime.evaluate(held_out, run.loader).mean());
  };
  evaluate();
  for (int step = 1; step <= steps; ++step) {
    const StepResult done = run.step(step);
    result.trained.losses.push_back(done.loss);
    result.trained.norms.push_back(done.grad_norm);
    evaluate();
    evaluate();
    CHECK(result.evaluations.back() == *(result.evaluations.end() - 2));
    result.evaluations.pop_back();
  }
  result.trained.parameters = run.parameters();
  result.trained.hash = run.hash();
  return result;
}

// Returns the loss that a training step on the held-out batch finds without dropout.
double loss_of_a_step(const Model& model, Plan plan, World& world) {
  plan.training.dropout = 0;
  SmallRun run(model, plan, world);
  return run.step_at(1, held_out).loss;
}

}  // namespace

TEST_CASE_ON_RANKS("an evaluation is the same under all degrees and changes no bit of training",
                   "[agree][mpi]") {
  World& world = test_world();
  for_each_variant(evaluation_variants, world, [&](const Model& model, Plan plan) {
    plan.training.steps = steps;
    SmallRun run(model, plan, world);
    const Evaluated got = train_and_evaluate(run);
    CHECK(got.trained == train(model, plan, world));
    CHECK(got.evaluations.front() == Approx(loss_of_a_step(model, plan, world)).epsilon(1e-6));
    SmallRun alone(model, on_one_process(plan));
    const Evaluated expected = train_and_evaluate(alone);
    for (std::size_t i = 0; i < expected.evaluations.size(); ++i)
      CHECK(got.evaluations[i] == Approx(expected.evaluations[i]).epsilon(1e-5));
  });
}

TEST_CASE_ON_RANKS("an evaluation leaves alone what 16 and 8 bits remember", "[agree][mpi]") {
  World& world = test_world();
  if (world.size() != 2) return;
  const Model model = eight_blocks("llama");
  for (const Precision precision : {Precision::fp16, Precision::fp8}) {
    Plan plan = base_plan(model, {1, 1, 2});
    plan.training.steps = steps;
    plan.training.precision = precision;
    plan.training.fp8_recipe = Fp8Recipe::delayed;
    INFO(describe(plan));
    SmallRun run(model, plan, world);
    CHECK(train_and_evaluate(run).trained == train(model, plan, world));
  }
}

TEST_CASE_ON_RANKS("an evaluation goes through experts", "[agree][mpi]") {
  World& world = test_world();
  if (world.size() != 2) return;
  const Model model = small_model("mixtral");
  Plan plan = base_plan(model, {1, 1, 2, 4, 0});
  plan.training.steps = steps;
  plan.parallelism.expert = 2;
  SmallRun run(model, plan, world);
  const Evaluated got = train_and_evaluate(run);
  CHECK(got.trained == train(model, plan, world));
  CHECK(got.evaluations.front() == Approx(loss_of_a_step(model, plan, world)).epsilon(1e-6));
}

TEST_CASE("an evaluation whose loss is not finite ends the run", "[agree]") {
  const Model model = small_model("gpt");
  Plan plan = base_plan(model, {});
  SmallRun run(model, plan);
  const StageParameter& first = run.stages[0].parameters[0];
  std::vector<float> broken(static_cast<std::size_t>(first.parameter.global_shape.elements()), NAN);
  run.runtime.parameters().set(first.parameter.name, broken);
  CHECK(message_of([&] { run.runtime.evaluate(0, run.loader); }) ==
        "the evaluation after step 0: the loss is not finite");
}
