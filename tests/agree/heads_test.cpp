// Checks that masked language models, question answering and classification of texts train alike
// under all degrees.
#include "tests/agree/training.h"
#include "tests/catch.h"
#include "tests/exec/on_ranks.h"

using namespace meshwright::tests;

namespace {

struct Case {
  int ranks;
  SmallDegrees degrees;
};

constexpr Case cases[] = {{2, {2, 1, 1}},       {2, {1, 2, 1}}, {2, {1, 1, 2, 2, 3}},
                          {4, {2, 2, 1}},       {4, {4, 1, 1}}, {4, {1, 2, 2, 2, 1}},
                          {4, {2, 1, 2, 4, 2}}, {4, {1, 4, 1}}, {4, {1, 1, 4, 1, 3}}};

}  // namespace

TEST_CASE_ON_RANKS("the heads mlm and qa train alike under all degrees", "[agree][mpi]") {
  World& world = test_world();
  for (const Head head : {Head::mlm, Head::qa})
    for (const Case& one : cases) {
      if (one.ranks != world.size()) continue;
      Model model = eight_blocks("bert");
      model.head = head;
      Plan plan = base_plan(model, one.degrees);
      plan.training.optimizer = OptimizerKind::sgd;
      plan.parallelism.sequence_parallel = one.degrees.tensor > 1;
      INFO("head " << static_cast<int>(head) << " " << describe(plan));
      check_plan(model, plan, world);
    }
}

// There are three classes, which no number of ranks divides. The elements that are dropped before
// the last matmul do not depend on the micro-batches.
TEST_CASE_ON_RANKS("the classes of texts are learned alike under all degrees", "[agree][mpi]") {
  World& world = test_world();
  for (const char* family : {"gpt", "llama", "bert"})
    for (const Case& one : cases) {
      if (one.ranks != world.size()) continue;
      Model model = eight_blocks(family);
      model.head = Head::label;
      model.classes = 3;
      Plan plan = base_plan(model, one.degrees);
      plan.training.optimizer = OptimizerKind::sgd;
      plan.training.dropout = model.is_causal() ? 0 : 0.2;
      plan.parallelism.sequence_parallel = one.degrees.tensor > 1;
      INFO(family << " " << describe(plan));
      check_plan(model, plan, world);
    }
}
