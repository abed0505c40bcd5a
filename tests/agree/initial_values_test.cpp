// Checks that training starts from the same weights however a model is split.
#include <string>

#include "tests/agree/training.h"
#include "tests/exec/on_ranks.h"
#include "tests/exec/small_run.h"

using namespace meshwright::tests;

TEST_CASE_ON_RANKS("every way of cutting a model starts from the same weights", "[agree][mpi]") {
  World& world = test_world();
  for (const char* family : {"gpt", "llama"}) {
    const Model model = eight_blocks(family);
    const std::string expected = SmallRun(model, small_plan(model, {})).hash();
    for (int pipeline : {1, 2, 4})
      for (int tensor : {1, 2, 4})
        for (TensorLayout layout :
             {TensorLayout::megatron, TensorLayout::speed, TensorLayout::memory})
          for (int zero : {0, 1, 3}) {
            const int data = world.size() / (pipeline * tensor);
            if (pipeline * tensor * data != world.size() || (zero > 0 && data == 1)) continue;
            Plan plan = small_plan(model, {pipeline, tensor, data, 4, zero, 1});
            plan.parallelism.tensor_layout = layout;
            INFO(family << " " << describe(plan));
            const std::string hash = SmallRun(model, plan, world).hash();
            if (world.rank() == 0) CHECK(hash == expected);
          }
  }
}
