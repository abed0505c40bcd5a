// Models of further families train alike under all degrees.
#include "tests/agree/training.h"
#include "tests/catch.h"
#include "tests/exec/worlds.h"

using namespace meshwright;

namespace {

constexpr SmallDegrees cases[] = {
    {1, 1, 2},       {1, 2, 1},       {2, 1, 1},       {1, 1, 2, 2, 1}, {1, 1, 2, 2, 2},
    {1, 1, 2, 2, 3}, {2, 2, 1},       {2, 1, 2},       {1, 2, 2, 2, 1}, {2, 1, 2, 4, 1},
    {2, 1, 2, 4, 2}, {2, 1, 2, 4, 3}, {1, 2, 2, 2, 3}, {1, 4, 1}};

}  // namespace

TEST_CASE("further families train alike under all degrees", "[agree][mpi]") {
  World& world = test_world();
  for (const char* name : {"distilbert"})
    for (const SmallDegrees& degrees : cases)
      for (const Recompute recompute : {Recompute::none, Recompute::full}) {
        if (ranks_of(degrees) != world.size()) continue;
        Model model = load_model(
            std::string(MESHWRIGHT_SOURCE_DIR) + "/tests/golden/transformers/" + name, "/");
        model.layers = 4;
        Plan plan = base_plan(model, degrees);
        plan.training.optimizer = OptimizerKind::sgd;
        plan.training.recompute = recompute;
        plan.parallelism.sequence_parallel = degrees.tensor > 1 && degrees.pipeline > 1;
        INFO(name << " " << describe(plan));
        check_plan(model, plan, world);
      }
}
