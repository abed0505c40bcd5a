// Checks that the blocks and losses of multi-token prediction train alike however the training is
// split.
#include <string>

#include "tests/agree/variants.h"
#include "tests/exec/on_ranks.h"

using namespace meshwright::tests;

namespace {

template <int layers>
void ahead(Plan& plan) {
  plan.training.mtp_layers = layers;
  plan.training.mtp_loss_weight = 0.3;
}

template <int degree>
void experts(Plan& plan) {
  plan.parallelism.expert = degree;
}
void offloaded(Plan& plan) { plan.parallelism.offload = Offload::activations; }

constexpr Variant variants[] = {
    {{1, 1, 1}, all_of<ahead<1>, full>},
    {{1, 1, 1}, all_of<ahead<2>, pruned, full>},
    {{1, 1, 1}, all_of<ahead<2>, eager, unfused>},
    {{1, 1, 1}, all_of<ahead<1>, budget<50>>},
    {{2, 1, 1}, ahead<1>},
    {{2, 1, 1}, all_of<ahead<2>, full>},
    {{2, 1, 1}, all_of<ahead<2>, pruned>},
    {{2, 1, 1}, all_of<ahead<1>, gpipe>},
    {{2, 1, 1}, all_of<ahead<1>, zero_bubble>},
    {{2, 1, 1, 4, 0, 2}, ahead<1>},
    {{2, 1, 1, 4, 0, 2}, all_of<ahead<2>, zero_bubble_v, full>},
    {{2, 1, 1, 4, 0, 2}, all_of<ahead<1>, dualpipe_v, pruned>},
    {{2, 1, 1, 4, 0, 2}, all_of<ahead<1>, interleaved_zero_bubble>},
    {{1, 2, 1}, ahead<1>},
    {{1, 2, 1}, all_of<ahead<2>, rows, full, pruned>},
    {{1, 2, 1}, all_of<ahead<1>, rows, tensor_overlaps>},
    {{1, 2, 1}, all_of<ahead<2>, own_batches>},
    {{1, 2, 1}, all_of<ahead<1>, eager, unfused>},
    {{1, 2, 1}, all_of<ahead<1>, layout_of<TensorLayout::speed>, rows>},
    {{1, 2, 1}, all_of<ahead<2>, layout_of<TensorLayout::memory>>},
    {{1, 1, 2}, all_of<ahead<2>, budget<50>>},
    {{1, 1, 2, 4, 1}, ahead<1>},
    {{1, 1, 2, 4, 2}, all_of<ahead<1>, pruned>},
    {{1, 1, 2, 4, 3}, ahead<2>},
    {{1, 1, 2, 4, 3}, all_of<ahead<1>, keeps_gathered>},
    {{1, 1, 1, 4, 0, 1, 2}, ahead<1>},
    {{1, 1, 1, 4, 0, 1, 2}, all_of<ahead<2>, gathers, pruned>},
    {{1, 1, 1, 4, 0, 1, 2}, all_of<ahead<1>, heads_exchanged>},
    {{2, 1, 1}, all_of<ahead<1>, offloaded, full>},
    {{2, 2, 1}, all_of<ahead<2>, rows>},
    {{2, 1, 2, 4, 1}, ahead<1>},
    {{2, 1, 2, 4, 3}, ahead<2>},
    {{1, 1, 2, 2, 3, 1, 2}, all_of<ahead<1>, full>},
    {{4, 1, 1}, ahead<2>},
};

constexpr Variant expert_variants[] = {
    {{1, 1, 1}, all_of<ahead<1>, full, pruned>},
    {{2, 1, 1}, ahead<1>},
    {{2, 1, 1, 4, 0, 2}, all_of<ahead<1>, dualpipe_v>},
    {{1, 2, 1}, all_of<ahead<1>, rows>},
    {{1, 1, 2}, all_of<ahead<2>, experts<2>, full>},
    {{1, 1, 2, 4, 3}, all_of<ahead<1>, experts<2>>},
    {{2, 1, 2}, all_of<ahead<1>, experts<2>>},
    {{1, 2, 2, 4, 1}, all_of<ahead<2>, experts<2>, rows>},
};

template <typename Visit>
void for_each(std::span<const Variant> all, const Model& model, const Visit& visit) {
  for (const Variant& variant : all) {
    if (ranks_of(variant.degrees) != test_world().size()) continue;
    Plan plan = base_plan(model, variant.degrees);
    plan.training.optimizer = OptimizerKind::sgd;
    variant.change(plan);
    INFO(describe(plan));
    visit(plan);
  }
}

Model golden_model(const std::string& name) {
  return load_model(std::string(MESHWRIGHT_SOURCE_DIR) + "/tests/golden/transformers/" + name, "/");
}

// Checks the multi-token prediction losses that the first step reports against one process.
void check_losses_ahead(const Model& model, const Plan& plan) {
  SmallRun alone(model, on_one_process(plan)), cut(model, plan, test_world());
  const StepResult expected = alone.step(1), got = cut.step(1);
  REQUIRE(expected.mtp_loss.has_value());
  CHECK(*expected.mtp_loss > 0.5 * expected.loss);
  CHECK(got.mtp_loss.value() == Approx(*expected.mtp_loss).epsilon(1e-5));
}

}  // namespace

TEST_CASE_ON_RANKS("multi-token prediction trains alike under all degrees", "[agree][mpi][mtp]") {
  const Model apart = eight_blocks("llama");
  Model tied = apart;
  tied.tied_embeddings = true;
  int turn = 0;
  for (const Model& model : {apart, tied})
    for_each(variants, model, [&](const Plan& plan) {
      if (!is_tried(++turn, 2)) return;
      check_plan(model, plan, test_world());
      check_losses_ahead(model, plan);
    });
}

TEST_CASE_ON_RANKS("multi-token prediction with experts trains like one process",
                   "[agree][mpi][mtp]") {
  Model model = golden_model("deepseek_v3");
  model.layers = 4;
  model.experts = 4;
  model.experts_per_token = 2;
  model.expert_groups = model.groups_per_token = 1;
  model.expert_capacity_factor = 1.25;
  model.expert_dropless = false;
  for_each(expert_variants, model, [&](Plan plan) {
    plan.training.router_bias_update_rate = 0.01;
    check_plan(model, plan, test_world());
  });
}

TEST_CASE("an evaluation has the next token's loss alone", "[agree][mtp]") {
  const Model model = eight_blocks("llama");
  for (const CompilerLevel level : {CompilerLevel::fused, CompilerLevel::full}) {
    Plan plan = on_one_process(base_plan(model, {}));
    plan.training.compiler = level;
    SmallRun plain(model, plan);
    const double expected = plain.runtime.evaluate(1000, plain.loader).mean();
    ahead<2>(plan);
    SmallRun run(model, plan), other(model, plan);
    CHECK(run.runtime.evaluate(1000, run.loader).mean() == expected);
    const StepResult after = run.step(1), alone = other.step(1);
    CHECK(after.loss == alone.loss);
    CHECK(after.mtp_loss.value() == alone.mtp_loss.value());
    CHECK(run.hash() == other.hash());
  }
}

// A loss weight of 0 leaves the training of the model itself unchanged, and the parameters of the
// prediction blocks too.
TEST_CASE("without a weight multi-token prediction changes no step", "[agree][mtp]") {
  const Model model = eight_blocks("llama");
  Plan plan = on_one_process(base_plan(model, {}));
  plan.training.optimizer = OptimizerKind::sgd;
  const Trained expected = train_alone(model, plan);
  ahead<1>(plan);
  const Trained with = train_alone(model, plan);
  plan.training.mtp_loss_weight = 0;
  const Trained without = train_alone(model, plan);
  CHECK(without.losses == expected.losses);
  CHECK(with.losses[0] == expected.losses[0]);
  CHECK(with.losses != expected.losses);
  for (const auto& [name, values] : expected.parameters) {
    INFO(name);
    CHECK(without.parameters.at(name) == values);
  }
  CHECK(without.parameters.size() > expected.parameters.size());
}
