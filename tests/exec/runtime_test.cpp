// Trains small models on one process and, under mpirun, with some of the ways to split them that
// fit the number of ranks. Compares the results (tests/agree/ has all ways).
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "exec/comm/self.h"
#include "models/core/error.h"
#include "tests/catch.h"
#include "tests/exec/small_run.h"
#include "tests/exec/worlds.h"

using namespace meshwright::tests;

namespace {

constexpr int steps = 4;

Trained train(const Model& model, const Plan& plan, World& world, bool trace = false) {
  SmallRun run(model, plan, world, trace);
  Trained result;
  for (int step = 1; step <= steps; ++step) {
    // Every step uses the same global batch, so that the loss must fall.
    const StepResult done = run.step_at(step, 0);
    result.losses.push_back(done.loss);
    result.norms.push_back(done.grad_norm);
  }
  result.parameters = run.parameters();
  result.hash = run.hash();
  if (trace) CHECK(!run.runtime.timeline().entries.empty());
  for (const TimelineEntry& entry : run.runtime.timeline().entries)
    if (entry.end < entry.begin || entry.rank != world.rank()) FAIL_CHECK("a time runs backwards");
  return result;
}

Plan runnable(const Model& model, SmallDegrees degrees) {
  Plan plan = small_plan(model, degrees);
  plan.training.learning_rate = 1e-2;
  plan.training.weight_decay = 0.1;
  plan.training.gradient_clip = 1;
  plan.training.epsilon = 1e-3;
  plan.training.steps = steps;
  return plan;
}

// Returns the plan for one process, with the same global batch in as many micro-batches.
Plan alone(Plan plan) {
  Plan single = plan;
  single.parallelism = Parallelism{};
  single.training.recompute = Recompute::none;
  return single;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double squares = 0, norm = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    squares += (double(a[i]) - b[i]) * (double(a[i]) - b[i]);
    norm += double(b[i]) * b[i];
  }
  return std::sqrt(squares / std::max(norm, 1e-30));
}

void compare(const Trained& got, const Trained& expected, int rank) {
  for (std::size_t i = 0; i < steps; ++i) {
    CHECK(got.losses[i] == Approx(expected.losses[i]).epsilon(1e-5));
    CHECK(got.norms[i] == Approx(expected.norms[i]).epsilon(1e-4));
  }
  if (rank != 0) return;
  REQUIRE(got.parameters.size() == expected.parameters.size());
  for (const auto& [name, values] : expected.parameters) {
    INFO(name);
    REQUIRE(got.parameters.at(name).size() == values.size());
    CHECK(distance(got.parameters.at(name), values) < 1e-4);
  }
}

}  // namespace

TEST_CASE("a small model learns its one batch, and twice the same way", "[exec][runtime]") {
  const auto world = make_self_world({});
  for (const char* family : {"gpt", "llama"}) {
    INFO(family);
    const Model model = small_model(family);
    const Plan plan = runnable(model, {});
    const Trained first = train(model, plan, *world, true), again = train(model, plan, *world);
    // At the start the prediction is nearly uniform: the loss is nearly ln(vocabulary).
    CHECK(first.losses[0] == Approx(std::log(double(model.vocabulary))).epsilon(0.02));
    CHECK(first.losses[steps - 1] < first.losses[0] - 0.1);
    CHECK(first.norms[0] > 0);
    CHECK(first.losses == again.losses);
    CHECK(first.hash == again.hash);
    CHECK(first.hash.size() == 64);
  }
}

TEST_CASE("interleaved chunks on one process send to themselves", "[exec][runtime]") {
  const auto world = make_self_world({});
  const Model model = small_model("gpt");
  Plan plan = runnable(model, {.virtual_stages = 2});
  plan.parallelism.schedule = ScheduleKind::interleaved;
  compare(train(model, plan, *world), train(model, alone(plan), *world), 0);
}

TEST_CASE("parameters that are set are the ones that come back", "[exec][runtime]") {
  World& world = test_world();
  const Model model = small_model("gpt");
  Plan plan = runnable(model, {.tensor = world.size() % 2 == 0 ? 2 : 1,
                               .data = world.size() % 2 == 0 ? world.size() / 2 : world.size()});
  if (plan.parallelism.data == 3) return;  // does not divide the batch
  SmallRun run(model, plan, world);
  std::map<std::string, std::vector<float>> sent;
  for (const StageParameter& member : run.stages[0].parameters) {
    std::vector<float>& values = sent[member.parameter.name];
    values.resize(static_cast<std::size_t>(member.parameter.global_shape.elements()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = float(i) + float(values.size()) / 3;
    run.runtime.parameters().set(member.parameter.name, values);
  }
  const auto got = run.parameters();
  if (world.rank() == 0)
    CHECK(got == sent);
  else
    CHECK(got.empty());
}

TEST_CASE("any way of cutting a model trains it like one process", "[exec][runtime][mpi]") {
  World& world = test_world();
  int met = 0, compared = 0;
  for (const char* family : {"gpt", "llama"}) {
    const Model model = small_model(family);
    std::map<std::int64_t, Trained> expected;
    for (Plan plan : small_plans(model)) {
      if (plan.parallelism.degrees().ranks() != world.size() || met++ % 5 != 0) continue;
      const Plan wanted = runnable(model, {});
      plan.training.learning_rate = wanted.training.learning_rate;
      plan.training.weight_decay = wanted.training.weight_decay;
      plan.training.gradient_clip = wanted.training.gradient_clip;
      plan.training.epsilon = wanted.training.epsilon;
      INFO(family << " " << describe(plan));
      const std::int64_t batch = plan.training.global_batch;
      if (!expected.contains(batch)) {
        const auto one = make_self_world({});
        expected[batch] = train(model, alone(plan), *one);
      }
      const Trained got = train(model, plan, world);
      compare(got, expected[batch], world.rank());
      if (++compared % 4 != 0) continue;
      const Trained again = train(model, plan, world);  // gives the same bits
      CHECK(again.losses == got.losses);
      CHECK(again.norms == got.norms);
      CHECK(again.hash == got.hash);
    }
  }
  CHECK((compared > 0 || world.size() == 3));  // no plan of this list has three ranks
}

namespace {

SmallRun fp16_run(const LossScale& scale) {
  const Model model = small_model("gpt");
  Plan plan = runnable(model, {});
  plan.training.precision = Precision::fp16;
  plan.training.loss_scale = scale;
  plan.training.warmup_steps = 10;
  return SmallRun(model, plan);
}

}  // namespace

TEST_CASE("an fp16 step that overflows changes nothing but the loss scale", "[exec][runtime]") {
  SmallRun run =
      fp16_run(LossScale{true, 0x1p40, 0x1p20, 1, 1000, 1});  // falls from 2^40 to 2^20 to 1
  const std::string begin = run.hash();
  const StepResult first = run.step_at(1, 0);
  CHECK(first.was_skipped);
  CHECK(first.skipped == 1);
  CHECK(first.loss_scale == 0x1p40);
  CHECK(first.grad_norm == INFINITY);
  CHECK(std::isfinite(first.loss));
  CHECK(run.hash() == begin);
  CHECK(run.runtime.loss_scale() == LossScaleState{0x1p20, 0, 1, 1});
  // The optimizer has not made a step yet, so the warm-up and the loss are where they were.
  run.runtime.set_loss_scale({1024, 0, 1, 1});
  const StepResult second = run.step_at(2, 0);
  CHECK_FALSE(second.was_skipped);
  CHECK(second.loss_scale == 1024);
  CHECK(second.skipped == 1);
  CHECK(second.learning_rate == first.learning_rate);
  CHECK(second.loss == first.loss);
  CHECK(second.grad_norm > 0);
  CHECK(run.hash() != begin);
  CHECK(run.runtime.loss_scale() == LossScaleState{1024, 1, 1, 1});
  CHECK(run.step_at(3, 0).learning_rate == Approx(2 * first.learning_rate));
}

// Powers of two change exponents only. Gradients below fp16's normal numbers lose different bits,
// less than the unit roundoff 2^-11 of the norm and of the loss.
TEST_CASE("the loss scale does not change what is learned", "[exec][runtime]") {
  std::vector<StepResult> results[2];
  for (const int run : {0, 1}) {
    LossScale fixed;
    fixed.initial = run == 0 ? 1024 : 8192;
    SmallRun trained = fp16_run(fixed);
    for (int step = 1; step <= 3; ++step) results[run].push_back(trained.step_at(step, 0));
  }
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(results[0][i].skipped == 0);
    CHECK(results[0][i].grad_norm > 0.1);
    CHECK(results[0][i].grad_norm == Approx(results[1][i].grad_norm).epsilon(0x1p-11));
    CHECK(results[0][i].loss == Approx(results[1][i].loss).epsilon(0x1p-11));
  }
}

TEST_CASE("a loss that is not finite stops an fp16 run before the update", "[exec][runtime]") {
  SmallRun run = fp16_run(LossScale{});
  const std::vector<float> huge(32, 1e6F);  // beyond fp16: infinite activations
  run.runtime.parameters().set("transformer.ln_f.weight", huge);
  const std::string begin = run.hash();
  CHECK_THROWS_AS(run.step_at(1, 0), RunError);
  CHECK(run.hash() == begin);
}

TEST_CASE("what the engine cannot run yet is refused", "[exec][runtime]") {
  const Model model = small_model("gpt");
  Plan plan = runnable(model, {});
  plan.training.precision = Precision::tf32;
  CHECK_THROWS_AS(SmallRun(model, plan), InputError);
}
