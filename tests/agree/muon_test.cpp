// Checks that muon trains as on one process with whole matrices on each replica, matrices that a
// tensor group shares, or matrices with owners.
#include "tests/agree/variants.h"
#include "tests/exec/on_ranks.h"

using namespace meshwright::tests;

namespace {

void by_muon(Plan& plan) {
  plan.training.optimizer = OptimizerKind::muon;
  plan.training.momentum = 0.95;
  plan.training.epsilon = 1e-3;  // of what AdamW steps: key biases stay where they are
}
void owned(Plan& plan) {
  by_muon(plan);
  plan.parallelism.shard_whole = true;
}

constexpr Variant muon_variants[] = {
    {{1, 1, 2, 4, 0}, by_muon},
    {{1, 1, 2, 4, 0}, all_of<by_muon, full, pruned>},
    {{1, 1, 2, 4, 1}, owned},
    {{1, 2, 1, 4, 0}, by_muon},
    {{1, 2, 1, 4, 0}, all_of<by_muon, rows>},
    {{1, 2, 1, 4, 0}, all_of<by_muon, layout_of<TensorLayout::speed>>},
    {{1, 2, 1, 4, 0}, all_of<by_muon, layout_of<TensorLayout::memory>>},
    {{1, 2, 1, 4, 0}, all_of<by_muon, eager, unfused>},
    {{2, 1, 1, 4, 0}, by_muon},
    {{2, 1, 1, 4, 0}, all_of<by_muon, zero_bubble>},
    {{1, 1, 1, 4, 0, 1, 2}, by_muon},
    {{1, 2, 2, 4, 0}, all_of<by_muon, rows>},
    {{1, 2, 2, 4, 1}, all_of<owned, rows>},
    {{2, 1, 2, 4, 1}, owned},
    {{2, 2, 1, 4, 0, 2}, by_muon},
    {{1, 1, 4, 1, 1}, owned},
};

}  // namespace

TEST_CASE_ON_RANKS("muon trains like on one process", "[agree][mpi]") {
  World& world = test_world();
  for_each_variant(muon_variants, world, [&](const Model& model, const Plan& plan) {
    const Trained& expected = train_alone(model, on_one_process(plan));
    const Trained got = train(model, plan, world);
    compare_losses(got, expected);
    if (world.rank() == 0) compare_all(got, expected);
  });
}

TEST_CASE_ON_RANKS("muon steps the matrices of experts one by one", "[agree][mpi]") {
  World& world = test_world();
  if (world.size() != 2) return;
  const Model model = small_model("mixtral");
  Plan plan = base_plan(model, {1, 1, 2, 4, 0});
  by_muon(plan);
  plan.parallelism.expert = 2;
  const Trained& expected = train_alone(model, on_one_process(plan));
  const Trained got = train(model, plan, world);
  compare_losses(got, expected);
  if (world.rank() == 0) compare_all(got, expected);
}

TEST_CASE_ON_RANKS("muon keeps one moment of matrices", "[agree][mpi]") {
  World& world = test_world();
  if (world.size() != 1) return;
  const Model model = small_model("llama");
  Plan plan = base_plan(model, {});
  const auto states = [&] {
    return lower_small(model, plan)[0]
        .memory.class_bytes[static_cast<std::size_t>(MemoryClass::optimizer)];
  };
  const std::int64_t of_adamw = states();
  by_muon(plan);
  std::int64_t in_blocks = 0;
  const Program program = lower_small(model, plan)[0];
  for (const Bucket& bucket : program.buckets)
    for (const int index : bucket.parameters) {
      const Parameter& parameter = program.parameters[static_cast<std::size_t>(index)].parameter;
      const bool is_in_block = parameter.name.find(".layers.") != std::string::npos;
      CHECK(bucket.matrices == (is_in_block && parameter.shape.rank == 2));
      if (bucket.matrices) in_blocks += parameter.shape.elements();
    }
  CHECK(in_blocks > 0);
  CHECK(of_adamw - states() == 4 * in_blocks);
}
