// Checks training on completions only. The loss is the mean over the learned tokens of the global
// batch, however the batch is split.
#include <string>

#include "models/core/error.h"
#include "tests/agree/variants.h"
#include "tests/exec/on_ranks.h"
#include "tests/test_folder.h"

using namespace meshwright::tests;

namespace {

constexpr int steps = 4;

constexpr Variant pairs_variants[] = {
    {{1, 1, 1}, pruned},
    {{1, 1, 1}, all_of<eager, unfused>},
    {{2, 1, 1}, nothing},
    {{2, 1, 1}, all_of<zero_bubble, pruned>},
    {{1, 2, 1}, nothing},
    {{1, 2, 1}, all_of<rows, full, pruned>},
    {{1, 2, 1}, all_of<eager, unfused>},
    {{1, 2, 1}, layout_of<TensorLayout::speed>},
    {{1, 2, 1}, layout_of<TensorLayout::memory>},
    {{1, 1, 2}, nothing},
    {{1, 1, 2, 4, 2}, pruned},
    {{1, 1, 2, 4, 3}, nothing},
    {{1, 1, 1, 4, 0, 1, 2}, nothing},
    {{2, 2, 1}, rows},
    {{1, 2, 2}, own_batches},
    {{4, 1, 1}, nothing},
};

// Writes a file with completions of 1 to 6 tokens, so that micro-batches and replicas have
// different numbers of learned tokens.
class Pairs {
 public:
  Loader loader(const Model& model, const Plan& plan) const {
    LoaderOptions options;
    options.files = {path_};
    options.format = TokenFormat::pairs;
    options.sequence_length = plan.training.sequence_length;
    options.vocabulary = model.vocabulary;
    return Loader(options);
  }

 private:
  static std::string text() {
    std::string lines;
    for (int i = 0; i < 20; ++i) {
      const std::string letters = "\\u0001\\u0002\\u0003\\u0004\\u0005\\u0006\\u0007";
      const auto from = [&](int first, int count) {
        std::string part;
        for (int k = 0; k < count; ++k)
          part += letters.substr(static_cast<std::size_t>(6 * ((first + k) % 7)), 6);
        return part;
      };
      lines += "{\"prompt\": \"" + from(i, 2 + i % 3) + "\", \"completion\": \"" +
               from(3 * i, 1 + i * i % 6) + "\"}\n";
    }
    return lines;
  }

  TestFolder folder_;
  std::string path_ = folder_.file("pairs.jsonl", text());
};

Trained train_on_pairs(SmallRun& run, Loader& loader) {
  Trained result;
  for (int step = 1; step <= steps; ++step) {
    const StepResult done =
        run.runtime.step(step, (step - 1) * run.plan.training.global_batch, loader);
    result.losses.push_back(done.loss);
    result.norms.push_back(done.grad_norm);
  }
  result.parameters = run.parameters();
  return result;
}

Values after_a_step(const Model& model, const Plan& plan, Loader& loader, std::int64_t position,
                    double& loss) {
  SmallRun run(model, plan);
  loss = run.runtime.step(1, position, loader).loss;
  return run.parameters();
}

}  // namespace

TEST_CASE_ON_RANKS("completions are learned alike under all degrees", "[agree][mpi]") {
  World& world = test_world();
  const Pairs pairs;
  for_each_variant(pairs_variants, world, [&](const Model& model, Plan plan) {
    plan.training.steps = steps;
    Loader loader = pairs.loader(model, plan), its_own = pairs.loader(model, plan);
    SmallRun alone(model, on_one_process(plan)), run(model, plan, world);
    const Trained expected = train_on_pairs(alone, its_own), got = train_on_pairs(run, loader);
    compare_losses(got, expected);
    for (std::size_t i = 0; i < steps; ++i)
      CHECK(got.norms[i] == Approx(expected.norms[i]).epsilon(1e-4));
    if (world.rank() == 0) compare_each(got, expected);
    CHECK(run.runtime.evaluate(8, loader).mean() ==
          Approx(alone.runtime.evaluate(8, its_own).mean()).epsilon(1e-5));
  });
}

TEST_CASE("every learned token of a batch weighs the same", "[agree]") {
  const Pairs pairs;
  const Model model = small_model("llama");
  Plan plan = base_plan(model, {});
  plan.training.optimizer = OptimizerKind::sgd;
  plan.training.momentum = 0;
  plan.training.weight_decay = 0;
  plan.training.gradient_clip = 0;
  plan.training.learning_rate = 1;
  Loader loader = pairs.loader(model, plan);
  double loss_of_batch = 0;
  const Values batch = after_a_step(model, plan, loader, 0, loss_of_batch);
  const Values before = SmallRun(model, plan).parameters();
  Plan single = plan;
  single.training.global_batch = single.training.micro_batch = 1;
  const auto counted =
      static_cast<double>(loader.counted_targets(0, plan.training.global_batch).value());
  double loss = 0;
  std::map<std::string, std::vector<double>> moved;
  for (const auto& [name, values] : before) moved[name].resize(values.size());
  for (int i = 0; i < plan.training.global_batch; ++i) {
    const double share = static_cast<double>(loader.counted_targets(i, 1).value()) / counted;
    double own = 0;
    for (const auto& [name, values] : after_a_step(model, single, loader, i, own))
      for (std::size_t k = 0; k < values.size(); ++k)
        moved[name][k] += share * (double(values[k]) - before.at(name)[k]);
    loss += share * own;
  }
  CHECK(loss_of_batch == Approx(loss).epsilon(1e-6));
  double squares = 0, all = 0;
  for (const auto& [name, values] : batch)
    for (std::size_t k = 0; k < values.size(); ++k) {
      const double found = double(values[k]) - before.at(name)[k];
      squares += (found - moved[name][k]) * (found - moved[name][k]);
      all += found * found;
    }
  CHECK(all > 0);
  CHECK(squares <= 1e-10 * all);
}

TEST_CASE("a loss scale goes with completions", "[agree]") {
  const Pairs pairs;
  const Model model = small_model("gpt");
  Plan plan = base_plan(model, {});
  plan.training.optimizer = OptimizerKind::sgd;
  Loader loader = pairs.loader(model, plan), again = pairs.loader(model, plan);
  SmallRun in_fp32(model, plan);
  plan.training.precision = Precision::fp16;
  plan.training.loss_scale = LossScale{};
  plan.training.loss_scale->initial = 1024;
  SmallRun in_fp16(model, plan);
  const Trained expected = train_on_pairs(in_fp32, loader), got = train_on_pairs(in_fp16, again);
  // Values in 16 bits are off by 2^-11, but a wrong share of a token would be off by a half.
  for (std::size_t i = 0; i < steps; ++i) {
    CHECK(got.losses[i] == Approx(expected.losses[i]).epsilon(1e-2));
    CHECK(got.norms[i] == Approx(expected.norms[i]).epsilon(1e-2));
  }
}
