#include "tests/agree/training.h"

#include <cmath>
#include <deque>

#include "models/program/program_json.h"
#include "tests/catch.h"

namespace meshwright::tests {

Trained train(const Model& model, const Plan& plan, World& world) {
  SmallRun run(model, plan, world);
  check_programs(run.stages, "lowered");
  return train(run);
}

const Trained& train_alone(const Model& model, const Plan& plan) {
  struct Known {
    Model model;
    Plan plan;
    Trained trained;
  };
  static std::deque<Known> all;
  for (const Known& known : all)
    if (known.model == model && known.plan == plan) return known.trained;
  SmallRun run(model, plan);
  check_programs(run.stages, "lowered");
  return all.emplace_back(Known{model, plan, train(run)}).trained;
}

Plan base_plan(const Model& model, SmallDegrees degrees) {
  Plan plan = small_plan(model, degrees);
  plan.training.global_batch = 8;
  plan.training.micro_batch = degrees.data == 4 ? 1 : 2;
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
  plan.training.recompute_budget.reset();
  plan.training.compiler = CompilerLevel::fused;
  plan.training.micro_batch = 2;
  plan.stage_of_unit.clear();
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
  REQUIRE(got.losses.size() == expected.losses.size());
  for (std::size_t i = 0; i < expected.losses.size(); ++i)
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

std::vector<Model> other_models() {
  std::vector<Model> models;
  for (const std::string name : {"llama", "mpt", "bloom"}) {
    models.push_back(small_model(name));
    if (name == "llama") models.back().kv_heads = 2;
  }
  for (const std::string name : {"gpt_neox", "gpt_neo", "gptj", "qwen3", "olmo2", "gemma", "gemma2",
                                 "nemotron", "cohere", "falcon-40b"})
    models.push_back(
        load_model(std::string(MESHWRIGHT_SOURCE_DIR) + "/tests/golden/transformers/" + name, "/"));
  for (Model& model : models) model.layers = 5;
  return models;
}

void check_plan(const Model& model, const Plan& plan, World& world) {
  const Trained& expected = train_alone(model, on_one_process(plan));
  const Trained got = train(model, plan, world);
  compare_losses(got, expected);
  if (world.rank() == 0) compare_each(got, expected);
}

}  // namespace meshwright::tests
