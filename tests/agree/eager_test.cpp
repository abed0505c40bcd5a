// Checks that all compiler levels train the same model. At level `none` the operations of an eager
// framework replace modules and drop the same elements, under any degrees. The passes of level
// `full` must not change the results either.
#include <cmath>

#include "tests/agree/variants.h"
#include "tests/exec/on_ranks.h"

using namespace meshwright::tests;

namespace {

void drop(Plan& plan) {
  plan.training.dropout = 0.2;
  plan.training.seed = 3;
}

// Returns ||a - b|| / ||b|| over all parameters.
double distance(const Values& a, const Values& b) {
  double squares = 0, norm = 0;
  for (const auto& [name, values] : b)
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double difference = static_cast<double>(a.at(name)[i]) - static_cast<double>(values[i]);
      squares += difference * difference;
      norm += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    }
  return std::sqrt(squares / norm);
}

void check_levels(const Model& model, Change change, OptimizerKind optimizer) {
  Plan plan = base_plan(model, {});
  plan.training.optimizer = optimizer;
  plan.training.epsilon = 1e-3;  // else AdamW makes whole steps of gradients that are rounding
  plan.training.steps = 50;
  change(plan);
  INFO(name_of(model.architecture) << ": " << describe(plan));
  const Trained fused = train_alone(model, plan);
  eager(plan);
  const Trained framework = train_alone(model, plan);
  for (std::size_t i = 0; i < fused.losses.size(); ++i)
    CHECK(framework.losses[i] == Approx(fused.losses[i]).epsilon(1e-6));
  CHECK(distance(framework.parameters, fused.parameters) <= 1e-6);
  plan.training.compiler = CompilerLevel::full;
  const Trained compiled = train_alone(model, plan);
  for (std::size_t i = 0; i < fused.losses.size(); ++i)
    CHECK(compiled.losses[i] == Approx(framework.losses[i]).epsilon(1e-6));
  CHECK(distance(compiled.parameters, framework.parameters) <= 1e-6);
}

// Variants of the same eager operations, split over ranks in different ways.
constexpr Variant eager_variants[] = {
    {{1, 1, 1}, eager},
    {{1, 1, 1}, all_of<eager, unfused, drop>},
    {{1, 1, 1}, all_of<eager, unfused, drop, selective>},
    {{1, 1, 1}, all_of<eager, unfused, drop, full>},
    {{2, 1, 1}, all_of<eager, unfused, drop>},
    {{2, 1, 1}, all_of<eager, unfused, selective>},
    {{2, 1, 1}, all_of<eager, unfused, zero_bubble>},
    {{2, 1, 1, 4, 0, 2}, all_of<eager, unfused, full>},
    {{1, 2, 1}, all_of<eager, unfused, drop>},
    {{1, 2, 1}, all_of<eager, unfused, rows, drop, selective>},
    {{1, 2, 1}, all_of<eager, unfused, own_batches>},
    {{1, 2, 1}, all_of<eager, unfused, layout_of<TensorLayout::speed>, drop>},
    {{1, 2, 1}, all_of<eager, unfused, layout_of<TensorLayout::memory>, drop>},
    {{1, 1, 2}, all_of<eager, unfused, drop>},
    {{1, 1, 2, 4, 1}, all_of<eager, unfused>},
    {{1, 1, 2, 4, 2}, eager},
    {{1, 1, 2, 4, 3}, all_of<eager, unfused, selective>},
    {{1, 1, 1, 4, 0, 1, 2}, all_of<eager, drop>},
    {{2, 2, 1}, all_of<eager, unfused, rows, full>},
    {{2, 2, 1}, all_of<eager, unfused, own_batches, layout_of<TensorLayout::memory>, full>},
    {{1, 2, 2, 4, 3}, all_of<eager, unfused, rows, drop>},
    {{4, 1, 1}, all_of<eager, unfused, gpipe>},
    {{1, 4, 1}, all_of<eager, unfused, rows>},
    {{1, 2, 1, 4, 0, 1, 2}, all_of<eager, rows, full>},
};

}  // namespace

TEST_CASE_ON_RANKS("training at any compiler level is the same training", "[agree][mpi]") {
  if (test_world().size() > 1) return;
  for (const char* family : {"gpt", "llama", "bert"})
    for (const Change change : {nothing, drop, unfused, all_of<unfused, drop>})
      for (const OptimizerKind optimizer : {OptimizerKind::sgd, OptimizerKind::adamw})
        check_levels(small_model(family), change, optimizer);
}

TEST_CASE_ON_RANKS("level none trains other families and optimizers like the other levels",
                   "[agree][mpi]") {
  if (test_world().size() > 1) return;
  for (const Model& model : other_models()) check_levels(model, unfused, OptimizerKind::sgd);
  check_levels(small_model("mixtral"), unfused, OptimizerKind::sgd);
  for (const OptimizerKind optimizer : {OptimizerKind::adam, OptimizerKind::lamb})
    check_levels(small_model("gpt"), nothing, optimizer);
}

TEST_CASE_ON_RANKS("level none trains alike under all degrees", "[agree][mpi]") {
  World& world = test_world();
  for_each_variant(eager_variants, world,
                   [&](const Model& model, const Plan& plan) { check_plan(model, plan, world); });
}

TEST_CASE_ON_RANKS("level none trains alike if ranks share the experts", "[agree][mpi]") {
  World& world = test_world();
  const Model model = small_model("mixtral");
  Plan plan = base_plan(model, {1, 1, world.size()});
  plan.training.optimizer = OptimizerKind::sgd;
  plan.parallelism.expert = world.size();
  eager(plan);
  check_plan(model, plan, world);
}
