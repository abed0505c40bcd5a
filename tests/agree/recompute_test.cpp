// Checks that the model trains alike whatever is recomputed, and in whatever groups.
#include <string>
#include <vector>

#include "tests/agree/variants.h"
#include "tests/exec/on_ranks.h"

using namespace meshwright::tests;

namespace {

void modules(Plan& plan, const std::string& family) {
  plan.training.recompute_modules =
      family == "gpt" ? std::vector<std::string>{"transformer.h.*.mlp", "transformer.h.3"}
                      : std::vector<std::string>{"model.layers.*.self_attn",
                                                 "model.layers.2.mlp.down_proj", "model.layers.5"};
}

constexpr Variant recompute_variants[] = {
    {{1, 1, 1}, contiguous},
    {{1, 1, 1}, groups<3>},
    {{1, 1, 1}, all_of<groups<3>, of_blocks<75>>},
    {{1, 1, 1}, all_of<selective, unfused>},
    {{1, 1, 1}, all_of<contiguous, pruned>},
    {{2, 1, 1}, contiguous},
    {{2, 1, 1, 4, 0, 2}, contiguous},
    {{2, 1, 1}, groups<3>},
    {{1, 2, 1}, all_of<groups<2>, rows>},
    {{1, 2, 1}, all_of<selective, unfused>},
    {{1, 1, 2, 4, 3}, groups<2>},
    {{4, 1, 1}, contiguous},
    {{2, 2, 1}, all_of<groups<2>, rows>},
    {{2, 2, 1, 4, 0, 2}, all_of<groups<2>, rows>},
    {{1, 2, 2, 4, 2}, groups<4>},
    {{2, 1, 2, 4, 3}, contiguous},
};

// Recomputes by operation, as torchtitan's selective recomputation does (recompute_operators.h).
void by_operation(Plan& plan) {
  plan.training.framework = Framework::torchtitan;
  plan.training.recompute = Recompute::selective;
}

constexpr Variant operations[] = {
    {{1, 1, 1}, by_operation},
    {{1, 1, 1}, all_of<by_operation, drops>},
    {{1, 1, 1}, all_of<by_operation, unfused>},
    {{2, 1, 1}, by_operation},
    {{2, 1, 1, 4, 0, 2}, all_of<by_operation, drops>},
    {{1, 2, 1}, by_operation},
    {{1, 2, 1}, all_of<by_operation, rows>},
    {{1, 1, 2, 4, 3}, by_operation},
    {{4, 1, 1}, by_operation},
    {{2, 2, 1}, all_of<by_operation, rows>},
    {{1, 2, 2, 4, 2}, by_operation},
};

constexpr Variant budgets[] = {
    {{1, 1, 1}, budget<50>},
    {{1, 1, 1}, budget<80>},
    {{1, 1, 1}, all_of<budget<60>, drops, unfused>},
    {{1, 1, 1}, all_of<budget<70>, pruned>},
    {{2, 1, 1}, budget<65>},
    {{2, 1, 1, 4, 0, 2}, all_of<budget<80>, drops>},
    {{1, 2, 1}, all_of<budget<60>, rows>},
    {{1, 2, 1}, all_of<budget<60>, drops>},
    {{1, 2, 1}, all_of<budget<70>, layout_of<TensorLayout::memory>>},
    {{1, 2, 1}, all_of<budget<70>, layout_of<TensorLayout::speed>, own_batches>},
    {{1, 1, 2, 4, 3}, budget<60>},
    {{1, 1, 1, 4, 0, 1, 2}, all_of<budget<70>, drops>},
    {{4, 1, 1}, budget<80>},
    {{2, 2, 1}, all_of<budget<70>, rows, drops>},
    {{2, 1, 2, 4, 1}, budget<65>},
    {{1, 2, 2, 4, 2}, all_of<budget<60>, gpipe>},
    {{1, 1, 2, 4, 2, 1, 2}, all_of<budget<70>, gathers>},
};

bool repeats_something(const std::vector<Program>& stages) {
  for (const Program& program : stages)
    for (const Body& body : program.bodies)
      for (const Instruction& instruction : body.instructions)
        if (instruction.phase == Phase::recompute) return true;
  return false;
}

void compare_bits(const Model& model, Plan plan, World& world) {
  CHECK(repeats_something(lower_small(model, plan)));
  const Trained with = train(model, plan, world);
  plan.training.recompute_budget.reset();
  plan.training.recompute = Recompute::none;
  const Trained without = train(model, plan, world);
  CHECK(with.losses == without.losses);
  CHECK(with.hash == without.hash);
}

}  // namespace

TEST_CASE_ON_RANKS("a budget of memory changes no bit", "[agree][mpi]") {
  World& world = test_world();
  for_each_variant(budgets, world,
                   [&](const Model& model, const Plan& plan) { compare_bits(model, plan, world); });
  Model experts = small_model("mixtral");
  Plan plan = base_plan(experts, {1, 1, world.size()});
  plan.parallelism.expert = world.size();
  plan.training.recompute_budget = 0.7;
  compare_bits(experts, plan, world);
}

TEST_CASE_ON_RANKS("recomputation by operation changes no bit", "[agree][mpi]") {
  World& world = test_world();
  for_each_variant(operations, world,
                   [&](const Model& model, const Plan& plan) { compare_bits(model, plan, world); });
  Model experts = small_model("mixtral");
  Plan plan = base_plan(experts, {1, 1, world.size()});
  plan.parallelism.expert = world.size();
  by_operation(plan);
  compare_bits(experts, plan, world);
}

TEST_CASE_ON_RANKS("groups of recomputed blocks train alike", "[agree][mpi]") {
  World& world = test_world();
  for_each_variant(recompute_variants, world,
                   [&](const Model& model, const Plan& plan) { check_plan(model, plan, world); });
}

TEST_CASE_ON_RANKS("recomputed modules train alike", "[agree][mpi]") {
  World& world = test_world();
  for (const char* family : {"gpt", "llama"}) {
    const Model model = eight_blocks(family);
    const int tensor = world.size() == 1 ? 1 : 2;
    Plan plan = base_plan(model, {world.size() / tensor, tensor, 1});
    plan.training.optimizer = OptimizerKind::sgd;
    plan.parallelism.sequence_parallel = tensor > 1;
    modules(plan, family);
    INFO(family << " " << describe(plan));
    check_plan(model, plan, world);
  }
}
