// Checks that models of ONNX files (tests/golden/make_onnx.py) train alike under all degrees,
// because their graphs are split like those of a family.
#include "tests/agree/variants.h"
#include "tests/catch.h"
#include "tests/exec/on_ranks.h"

using namespace meshwright::tests;

namespace {

void metis(Plan& plan) { plan.parallelism.partitioner = Partitioner::metis; }

constexpr Variant onnx_variants[] = {{{2, 1, 1}, metis},
                                     {{2, 1, 1}, all_of<metis, zero_bubble>},
                                     {{2, 1, 1}, all_of<metis, full>},
                                     {{2, 1, 1}, all_of<metis, eager, unfused>},
                                     {{1, 2, 1}, nothing},
                                     {{1, 2, 1}, rows},
                                     {{1, 2, 1}, layout_of<TensorLayout::memory>},
                                     {{1, 1, 2, 2, 3}, nothing},
                                     {{1, 1, 2, 2, 1}, pruned},
                                     {{2, 2, 1}, all_of<metis, rows>},
                                     {{2, 1, 2, 4, 2}, metis}};

}  // namespace

TEST_CASE_ON_RANKS("models of ONNX files train alike under all degrees", "[agree][mpi][onnx]") {
  World& world = test_world();
  for (const char* name :
       {"onnx/gpt2-17-mask", "onnx/llama-14", "onnx/bert-17-mask",
        "onnx_5/gemma-dynamo-free-sdpa-none", "onnx_5/bert-dynamo-fixed-sdpa-none"}) {
    const Model model =
        load_model(std::string(MESHWRIGHT_SOURCE_DIR) + "/tests/golden/" + name + ".onnx", "/");
    for (const Variant& variant : onnx_variants) {
      if (ranks_of(variant.degrees) != world.size()) continue;
      Plan plan = base_plan(model, variant.degrees);
      plan.training.optimizer = OptimizerKind::sgd;
      variant.change(plan);
      INFO(name << " " << describe(plan));
      check_plan(model, plan, world);
    }
  }
}
