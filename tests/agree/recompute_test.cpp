// Whatever is recomputed, in whatever groups, the model trains alike.
#include <string>
#include <vector>

#include "exec/comm/self.h"
#include "tests/agree/training.h"
#include "tests/catch.h"
#include "tests/exec/worlds.h"

using namespace meshwright;

namespace {

void contiguous(Plan& plan) { plan.training.recompute = Recompute::contiguous; }
template <int size>
void groups(Plan& plan) {
  plan.training.recompute = Recompute::group;
  plan.training.recompute_group = size;
}
void some_blocks(Plan& plan) {
  groups<3>(plan);
  plan.training.recompute_fraction = 0.75;
}
void pruned(Plan& plan) {
  contiguous(plan);
  plan.training.compiler = CompilerLevel::full;
}
void rows(Plan& plan) {
  groups<2>(plan);
  plan.parallelism.sequence_parallel = true;
}
void score_matrices(Plan& plan) {
  plan.training.recompute = Recompute::selective;
  plan.training.attention = AttentionKernel::unfused;
}

void modules(Plan& plan, const std::string& family) {
  plan.training.recompute_modules =
      family == "gpt" ? std::vector<std::string>{"transformer.h.*.mlp", "transformer.h.3"}
                      : std::vector<std::string>{"model.layers.*.self_attn",
                                                 "model.layers.2.mlp.down_proj", "model.layers.5"};
}

struct Variant {
  SmallDegrees degrees;  // pipeline, tensor, data, micro-batches, ZeRO, virtual stages
  void (*change)(Plan& plan);
};
constexpr Variant variants[] = {
    {{1, 1, 1}, contiguous},
    {{1, 1, 1}, groups<3>},
    {{1, 1, 1}, some_blocks},
    {{1, 1, 1}, score_matrices},
    {{1, 1, 1}, pruned},
    {{2, 1, 1}, contiguous},
    {{2, 1, 1, 4, 0, 2}, contiguous},
    {{2, 1, 1}, groups<3>},
    {{1, 2, 1}, rows},
    {{1, 2, 1}, score_matrices},
    {{1, 1, 2, 4, 3}, groups<2>},
    {{4, 1, 1}, contiguous},
    {{2, 2, 1}, rows},
    {{2, 2, 1, 4, 0, 2}, rows},
    {{1, 2, 2, 4, 2}, groups<4>},
    {{2, 1, 2, 4, 3}, contiguous},
};

}  // namespace

TEST_CASE("groups of recomputed blocks train alike", "[agree][mpi]") {
  World& world = test_world();
  for (const char* family : {"gpt", "llama"})
    for (const Variant& variant : variants) {
      const SmallDegrees& d = variant.degrees;
      if (d.pipeline * d.tensor * d.data != world.size()) continue;
      const Model model = eight_blocks(family);
      Plan plan = base_plan(model, d);
      plan.training.optimizer = OptimizerKind::sgd;
      variant.change(plan);
      INFO(family << " " << describe(plan));
      check_plan(model, plan, world);
    }
}

TEST_CASE("recomputed modules train alike", "[agree][mpi]") {
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
