#include "tests/agree/training.h"

#include <cmath>

#include "exec/backends/cpu/cpu_backend.h"
#include "exec/comm/self.h"
#include "exec/runtime/runtime.h"
#include "tests/catch.h"

namespace meshwright {

Trained train(const Model& model, const Plan& plan, World& world) {
  const std::vector<Program> stages = lower_small(model, plan);
  verify(stages);
  const Mesh mesh(plan.degrees(), plan.parallelism.placement);
  const auto backend = make_cpu_backend(1);
  Runtime runtime(stages, plan, mesh, world, *backend, {1, model.layers, false});
  LoaderOptions data;
  data.sequence_length = plan.training.sequence_length;
  data.vocabulary = model.vocabulary;
  constexpr Targets targets_of_head[] = {Targets::next, Targets::masked, Targets::span};
  data.targets = targets_of_head[static_cast<std::size_t>(model.head)];
  data.predicted = plan.training.predicted_positions;
  Loader loader(data);
  Trained result;
  for (int step = 1; step <= parity_steps; ++step)
    result.losses.push_back(
        runtime.step(step, (step - 1) * plan.training.global_batch, loader).loss);
  runtime.parameters().gather([&](const Parameter& parameter, std::span<const float> values) {
    result.parameters[parameter.name].assign(values.begin(), values.end());
  });
  result.hash = runtime.parameters().sha256();
  return result;
}

Plan base_plan(const Model& model, SmallDegrees degrees) {
  Plan plan = small_plan(model, degrees);
  plan.training.global_batch = 8;
  plan.training.micro_batch = degrees.pipeline == 4 ? 2 / degrees.data : 2;
  plan.training.learning_rate = 1e-3;
  plan.training.weight_decay = 0.1;
  plan.training.gradient_clip = 1;
  plan.training.steps = parity_steps;
  return plan;
}

Plan on_one_process(Plan plan) {
  plan.parallelism = Parallelism{};
  plan.training.recompute = Recompute::none;
  plan.training.recompute_modules.clear();
  plan.training.micro_batch = 2;
  return plan;
}

namespace {

struct Distance {
  double squares = 0, norm = 0;
  void add(const std::vector<float>& a, const std::vector<float>& b) {
    for (std::size_t i = 0; i < b.size(); ++i) {
      const double difference = double(a[i]) - b[i];
      squares += difference * difference;
      norm += double(b[i]) * b[i];
    }
  }
  double relative() const { return std::sqrt(squares / norm); }
};

}  // namespace

void compare_losses(const Trained& got, const Trained& expected) {
  for (std::size_t i = 0; i < parity_steps; ++i)
    CHECK(got.losses[i] == Approx(expected.losses[i]).epsilon(1e-5));
}

void compare_all(const Trained& got, const Trained& expected) {
  Distance all;
  REQUIRE(got.parameters.size() == expected.parameters.size());
  for (const auto& [name, values] : expected.parameters) all.add(got.parameters.at(name), values);
  CHECK(all.relative() <= 1e-4);
}

void compare_each(const Trained& got, const Trained& expected) {
  REQUIRE(got.parameters.size() == expected.parameters.size());
  for (const auto& [name, values] : expected.parameters) {
    Distance one;
    one.add(got.parameters.at(name), values);
    INFO(name);
    const bool small = std::sqrt(one.squares) <= 1e-5;  // biases begin at zero
    CHECK((small || one.relative() <= 1e-5));
  }
}

Model eight_blocks(const std::string& family) {
  Model model = small_model(family);
  model.layers = 8;
  return model;
}

void check_plan(const Model& model, const Plan& plan, World& world) {
  Plan alone = on_one_process(plan);
  alone.training.compiler = CompilerLevel::fused;
  const auto one = make_self_world({});
  const Trained expected = train(model, alone, *one);
  const Trained got = train(model, plan, world);
  compare_losses(got, expected);
  if (world.rank() == 0) compare_each(got, expected);
}

}  // namespace meshwright
