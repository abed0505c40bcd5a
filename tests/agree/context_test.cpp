// Checks that ranks that share each sequence (context parallelism) train the model that one process
// trains.
#include "tests/agree/variants.h"
#include "tests/exec/on_ranks.h"

using namespace meshwright::tests;

namespace {

constexpr Variant context_variants[] = {
    {{1, 1, 1, 4, 0, 1, 2}, nothing},
    {{1, 1, 1, 4, 0, 1, 2}, gathers},
    {{1, 1, 1, 4, 0, 1, 2}, selective},
    {{1, 1, 1, 4, 0, 1, 2}, full},
    {{1, 1, 1, 4, 0, 1, 2}, all_of<gathers, full>},
    {{1, 1, 1, 4, 1, 1, 2}, nothing},
    {{1, 1, 1, 4, 3, 1, 2}, nothing},
    {{1, 1, 1, 4, 0, 1, 4}, nothing},
    {{1, 1, 1, 4, 0, 1, 4}, gathers},
    {{1, 1, 1, 4, 2, 1, 4}, in_pairs},
    {{1, 2, 1, 4, 0, 1, 2}, nothing},
    {{1, 2, 1, 4, 0, 1, 2}, rows},
    {{1, 2, 1, 4, 0, 1, 2}, placed<7>},
    {{2, 1, 1, 4, 0, 1, 2}, nothing},
    {{2, 1, 1, 4, 0, 1, 2}, full},
    {{2, 1, 1, 4, 0, 1, 2}, zero_bubble},
    {{2, 1, 1, 4, 0, 1, 2}, all_of<zero_bubble, full>},
    {{2, 1, 1, 4, 0, 2, 2}, nothing},
    {{1, 1, 2, 4, 0, 1, 2}, nothing},
    {{1, 1, 2, 4, 1, 1, 2}, nothing},
    {{1, 1, 2, 4, 2, 1, 2}, nothing},
    {{1, 1, 2, 4, 3, 1, 2}, nothing},
    {{1, 1, 2, 4, 3, 1, 2}, in_pairs},
    {{1, 1, 1, 4, 0, 1, 2}, heads_exchanged},
    {{1, 1, 1, 4, 0, 1, 2}, all_of<heads_exchanged, drops>},
    {{1, 1, 1, 4, 0, 1, 2}, all_of<heads_exchanged, unfused>},
    {{1, 1, 1, 4, 0, 1, 2}, all_of<heads_exchanged, unfused, eager, drops>},
    {{1, 1, 1, 4, 0, 1, 2}, all_of<heads_exchanged, pruned>},
    {{1, 1, 1, 4, 0, 1, 2}, all_of<heads_exchanged, selective>},
    {{1, 1, 1, 4, 0, 1, 2}, all_of<heads_exchanged, full, pruned>},
    {{1, 1, 1, 4, 0, 1, 2}, all_of<heads_exchanged, budget<60>, pruned>},
    {{1, 1, 1, 4, 3, 1, 2}, heads_exchanged},
    {{1, 1, 1, 4, 0, 1, 4}, heads_exchanged},
    {{1, 1, 1, 4, 2, 1, 4}, all_of<heads_exchanged, in_pairs, pruned>},
    {{1, 2, 1, 4, 0, 1, 2}, heads_exchanged},
    {{1, 2, 1, 4, 0, 1, 2}, all_of<heads_exchanged, rows, pruned>},
    {{1, 2, 1, 4, 0, 1, 2}, all_of<heads_exchanged, layout_of<TensorLayout::memory>>},
    {{2, 1, 1, 4, 0, 1, 2}, all_of<heads_exchanged, full>},
    {{2, 1, 1, 4, 0, 1, 2}, all_of<heads_exchanged, zero_bubble>},
    {{2, 1, 1, 4, 0, 2, 2}, heads_exchanged},
    {{1, 1, 2, 4, 1, 1, 2}, heads_exchanged},
    {{1, 1, 1, 4, 0, 1, 4}, two_exchanges},
    {{1, 1, 1, 4, 0, 1, 4}, all_of<two_exchanges, drops>},
    {{1, 1, 1, 4, 0, 1, 4}, all_of<two_exchanges, eager>},
    {{1, 1, 1, 4, 0, 1, 4}, all_of<two_exchanges, pruned>},
    {{1, 1, 1, 4, 0, 1, 4}, all_of<two_exchanges, selective>},
    {{1, 1, 1, 4, 0, 1, 4}, all_of<two_exchanges, full, pruned>},
    {{1, 1, 1, 4, 0, 1, 4}, all_of<two_exchanges, budget<60>, pruned>},
    {{1, 1, 1, 4, 3, 1, 4}, two_exchanges},
    {{1, 1, 1, 4, 2, 1, 4}, all_of<two_exchanges, in_pairs>},
};

Plan ring(const Model& model, const World& world) {
  Plan plan = base_plan(model, {.context = world.size()});
  plan.training.optimizer = OptimizerKind::sgd;
  return plan;
}

}  // namespace

TEST_CASE_ON_RANKS("ranks that share sequences train like one process", "[agree][mpi]") {
  World& world = test_world();
  for_each_variant(context_variants, world,
                   [&](const Model& model, const Plan& plan) { check_plan(model, plan, world); });
}

TEST_CASE_ON_RANKS("ALiBi, packed heads and grouped queries see places in the sequence",
                   "[agree][mpi]") {
  World& world = test_world();
  if (world.size() == 1) return;
  for (const char* family : {"bloom", "mpt", "llama"}) {
    Model model = small_model(family);
    if (family == std::string("llama")) model.kv_heads = 2;
    Plan plan = ring(model, world);
    INFO(family);
    check_plan(model, plan, world);
    if (model.kv_heads % world.size() != 0) continue;
    heads_exchanged(plan);
    check_plan(model, plan, world);
  }
}

// Ranks 0 and 1 exchange heads of the two ends of each sequence, ranks 2 and 3 of its middle.
TEST_CASE_ON_RANKS("pairs that exchange heads see places in the sequence", "[agree][mpi]") {
  World& world = test_world();
  if (world.size() != 4) return;
  for (const char* family : {"bloom", "mpt", "llama"}) {
    Model model = small_model(family);
    if (family == std::string("llama")) model.kv_heads = 2;
    Plan plan = ring(model, world);
    two_exchanges(plan);
    INFO(family);
    check_plan(model, plan, world);
  }
}

TEST_CASE_ON_RANKS("the ring gives the same bits run after run", "[agree][mpi]") {
  World& world = test_world();
  if (world.size() == 1) return;
  const Model model = small_model("gpt");
  const Plan plan = ring(model, world);
  const Trained once = train(model, plan, world), again = train(model, plan, world);
  CHECK(once.losses == again.losses);
  if (world.rank() == 0) CHECK(once.hash == again.hash);
}
