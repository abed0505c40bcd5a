// Checks that tensor layouts and own batches train the model that one process trains, on the ranks
// that mpirun starts, with stages, replicas, sharding and recomputation.
#include <string>
#include <vector>

#include "tests/agree/training.h"
#include "tests/catch.h"
#include "tests/exec/on_ranks.h"

using namespace meshwright::tests;

namespace {

constexpr TensorLayout layouts[] = {TensorLayout::megatron, TensorLayout::speed,
                                    TensorLayout::memory};

// Adds plans with all batches, layouts and kinds of recomputation for one choice of degrees.
void add_plans(std::vector<Plan>& plans, const Model& model, SmallDegrees degrees) {
  for (TensorLayout layout : layouts)
    for (bool own : {false, true})
      for (bool rows : {false, true}) {
        if (rows && layout == TensorLayout::memory) continue;
        Plan plan = base_plan(model, degrees);
        if (own) plan.training.micro_batch = std::max(2, degrees.tensor);
        plan.parallelism.tensor_layout = layout;
        plan.parallelism.tensor_batch_own = own;
        plan.parallelism.sequence_parallel = rows;
        plan.training.recompute = own == rows ? Recompute::full : Recompute::none;
        plans.push_back(plan);
      }
}

std::vector<Plan> plans_on(int ranks, const Model& model) {
  std::vector<Plan> plans;
  if (ranks == 1) {
    add_plans(plans, model, {});  // nothing is cut: all alike
    plans.resize(3);
  }
  if (ranks == 2) add_plans(plans, model, {1, 2, 1});
  if (ranks == 4) {
    add_plans(plans, model, {1, 4, 1});
    add_plans(plans, model, {2, 2, 1});
    add_plans(plans, model, {1, 2, 2, 2, 1});
  }
  return plans;
}

void check_all(const Model& model, const std::vector<Plan>& plans, OptimizerKind optimizer) {
  World& world = test_world();
  Plan alone = on_one_process(base_plan(model, {}));
  alone.training.optimizer = optimizer;
  const Trained expected = train_alone(model, alone);
  for (Plan plan : plans) {
    INFO(name_of(model.architecture) << " " << describe(plan));
    plan.training.optimizer = optimizer;
    const Trained got = train(model, plan, world);
    compare_losses(got, expected);
    if (world.rank() != 0) continue;
    if (optimizer == OptimizerKind::sgd)
      compare_each(got, expected);
    else
      compare_all(got, expected);
  }
}

}  // namespace

TEST_CASE_ON_RANKS("every layout and batch trains a GPT alike", "[agree][mpi]") {
  const Model model = eight_blocks("gpt");
  check_all(model, plans_on(test_world().size(), model), OptimizerKind::sgd);
}

TEST_CASE_ON_RANKS("every layout and batch trains a Llama alike under AdamW", "[agree][mpi]") {
  const Model model = eight_blocks("llama");
  check_all(model, plans_on(test_world().size(), model), OptimizerKind::adamw);
}

TEST_CASE_ON_RANKS("other families train alike in layouts speed and memory", "[agree][mpi]") {
  if (test_world().size() == 1) return;
  std::vector<Model> models = other_models();
  for (const Head head :
       {Head::mlm, Head::qa, Head::label}) {  // masked positions; logits that none divides
    models.push_back(eight_blocks("bert"));
    models.back().head = head;
    models.back().classes = head == Head::label ? 3 : 0;
  }
  for (const Model& model : models) {
    std::vector<Plan> plans;
    for (TensorLayout layout : {TensorLayout::speed, TensorLayout::memory}) {
      Plan plan = base_plan(model, {test_world().size() / 2, 2, 1});
      plan.parallelism.tensor_layout = layout;
      plan.parallelism.tensor_batch_own = model.head != Head::lm || layout == TensorLayout::memory;
      plans.push_back(plan);
    }
    check_all(model, plans, OptimizerKind::sgd);
  }
}

TEST_CASE_ON_RANKS("layouts go with everything that replicas and stages share", "[agree][mpi]") {
  if (test_world().size() != 4) return;
  const Model model = eight_blocks("gpt");
  std::vector<Plan> plans;
  for (TensorLayout layout : layouts) {
    for (int zero : {0, 2, 3}) {
      plans.push_back(base_plan(model, {1, 2, 2, 2, zero}));
      plans.back().parallelism.tensor_layout = layout;
      plans.back().parallelism.tensor_batch_own = true;
    }
    plans.push_back(base_plan(model, {2, 2, 1, 4, 0, 2}));  // interleaved
    plans.back().parallelism.tensor_layout = layout;
    plans.back().parallelism.active_microbatches = 3;
    plans.back().parallelism.overlap_tensor = true;
    plans.push_back(base_plan(model, {2, 2, 1}));
    plans.back().parallelism.tensor_layout = layout;
    plans.back().parallelism.schedule = ScheduleKind::zero_bubble;
    plans.push_back(base_plan(model, {1, 2, 1}));
    plans.back().parallelism.tensor_layout = layout;
    plans.back().parallelism.tensor_batch_own = true;
    plans.back().parallelism.context = 2;
    plans.push_back(base_plan(model, {2, 2, 1}));
    plans.back().parallelism.tensor_layout = layout;
    plans.back().parallelism.tensor_batch_own = true;
    plans.back().training.recompute = Recompute::selective;
    plans.back().training.attention = AttentionKernel::unfused;
    plans.back().parallelism.placement = "TPD";
  }
  check_all(model, plans, OptimizerKind::sgd);
}
