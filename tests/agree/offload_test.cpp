// Activations that wait in another memory come back as they left: the model trains alike.
#include <string>
#include <vector>

#include "exec/comm/self.h"
#include "tests/agree/training.h"
#include "tests/catch.h"
#include "tests/exec/worlds.h"

using namespace meshwright;

namespace {

void nothing(Plan&) {}
void gpipe(Plan& plan) { plan.parallelism.schedule = ScheduleKind::gpipe; }
void rows(Plan& plan) {
  gpipe(plan);
  plan.parallelism.sequence_parallel = true;
}
void groups(Plan& plan) {
  plan.training.recompute = Recompute::group;
  plan.training.recompute_group = 2;
}
void half(Plan& plan) { plan.training.recompute_fraction = 0.5; }
void dropping(Plan& plan) { plan.training.dropout = 0.1; }

struct Variant {
  SmallDegrees degrees;  // pipeline, tensor, data, micro-batches, ZeRO, virtual stages
  const char* offload;
  int horizon;
  void (*change)(Plan& plan);
};
constexpr Variant variants[] = {
    {{1, 1, 1}, "layers", 2, nothing},
    {{1, 1, 1}, "layers", 3, half},
    {{1, 1, 1}, "activations", 1, gpipe},
    {{2, 1, 1}, "activations", 1, gpipe},
    {{2, 1, 1}, "activations", 2, gpipe},
    {{2, 1, 1, 4, 0, 2}, "activations", 1, nothing},
    {{1, 2, 1}, "activations", 1, rows},
    {{1, 2, 1}, "layers", 1, groups},
    {{1, 1, 2, 4, 3}, "layers", 2, dropping},
    {{4, 1, 1}, "activations", 1, nothing},
    {{4, 1, 1}, "layers", 2, nothing},
    {{2, 2, 1}, "activations", 1, gpipe},
    {{2, 2, 1}, "layers", 2, rows},
    {{1, 1, 4, 1, 3}, "layers", 2, nothing},
    {{2, 1, 2, 4, 3}, "activations", 1, gpipe},
};

}  // namespace

TEST_CASE("offloaded activations train alike", "[agree][mpi]") {
  World& world = test_world();
  for (const char* family : {"gpt", "llama"})
    for (const Variant& variant : variants) {
      const SmallDegrees& d = variant.degrees;
      if (d.pipeline * d.tensor * d.data != world.size()) continue;
      const Model model = eight_blocks(family);
      Plan plan = base_plan(model, d);
      if (d.data == 4) plan.training.micro_batch = 1;
      plan.training.optimizer = OptimizerKind::sgd;
      plan.training.recompute = Recompute::full;
      plan.parallelism.offload = variant.offload;
      plan.parallelism.offload_horizon = variant.horizon;
      variant.change(plan);
      INFO(family << " " << describe(plan) << " offload " << variant.offload << " "
                  << variant.horizon);
      check_plan(model, plan, world);
    }
}
