// Checks that lion trains as on one process however a model is split. Its update is a sign. If a
// moment is only rounding error, because the true gradient is zero (GPT's key biases), another
// order of sums may flip the sign. No loss depends on such an element.
#include <cmath>

#include "tests/agree/variants.h"
#include "tests/exec/on_ranks.h"

using namespace meshwright::tests;

namespace {

// The learning rate is small because the effect of a flipped sign on the losses falls with its
// square.
constexpr double learning_rate = 1e-4;

void by_lion(Plan& plan) {
  plan.training.optimizer = OptimizerKind::lion;
  plan.training.learning_rate = learning_rate;
  plan.training.beta2 = 0.99;
}

constexpr Variant lion_variants[] = {
    {{1, 1, 1, 4, 0}, all_of<by_lion, full, pruned>},
    {{1, 1, 1, 4, 0}, all_of<by_lion, eager, unfused>},
    {{2, 1, 1, 4, 0}, by_lion},
    {{2, 1, 1, 4, 0, 2}, all_of<by_lion, full>},
    {{1, 2, 1, 4, 0}, by_lion},
    {{1, 2, 1, 4, 0}, all_of<by_lion, rows>},
    {{1, 2, 1, 4, 0}, all_of<by_lion, layout_of<TensorLayout::memory>>},
    {{1, 1, 2, 4, 0}, by_lion},
    {{1, 1, 2, 4, 1}, all_of<by_lion, pruned>},
    {{1, 1, 2, 4, 2}, by_lion},
    {{1, 1, 2, 4, 3}, all_of<by_lion, full>},
    {{1, 1, 1, 4, 0, 1, 2}, by_lion},
    {{2, 2, 1, 4, 0}, all_of<by_lion, rows>},
    {{2, 1, 2, 4, 3}, by_lion},
    {{1, 2, 2, 4, 1}, by_lion},
    {{1, 1, 4, 1, 3}, all_of<by_lion, in_pairs>},
};

// Checks on rank 0 how many elements a flipped sign has moved apart. Leaves out GPT's biases of
// queries, keys and values.
void compare_signs(const Trained& got, const Trained& expected) {
  std::int64_t elements = 0, apart = 0;
  for (const auto& [name, values] : expected.parameters) {
    if (name.find("attn.c_attn.bias") != std::string::npos) continue;
    const std::vector<float>& own = got.parameters.at(name);
    for (std::size_t i = 0; i < values.size(); ++i) {
      ++elements;
      if (std::abs(own[i] - values[i]) > learning_rate / 2) ++apart;
    }
  }
  INFO(apart << " of " << elements);
  CHECK(apart <= elements / 1000);
}

}  // namespace

TEST_CASE_ON_RANKS("lion trains like on one process", "[agree][mpi]") {
  World& world = test_world();
  for_each_variant(lion_variants, world, [&](const Model& model, const Plan& plan) {
    const Trained& expected = train_alone(model, on_one_process(plan));
    const Trained got = train(model, plan, world);
    compare_losses(got, expected);
    if (world.rank() == 0) compare_signs(got, expected);
  });
}
