// Activations that wait in another memory come back as they left: the model trains alike.
#include "tests/agree/variants.h"
#include "tests/exec/on_ranks.h"

using namespace meshwright;

namespace {

template <int horizon>
void activations(Plan& plan) {
  plan.parallelism.offload = Offload::activations;
  plan.parallelism.offload_horizon = horizon;
}
template <int horizon>
void layers(Plan& plan) {
  plan.parallelism.offload = Offload::layers;
  plan.parallelism.offload_horizon = horizon;
}
void drop(Plan& plan) { plan.training.dropout = 0.1; }

constexpr Variant variants[] = {
    {{1, 1, 1}, all_of<full, layers<2>>},
    {{1, 1, 1}, all_of<full, layers<3>, of_blocks<50>>},
    {{1, 1, 1}, all_of<full, activations<1>, gpipe>},
    {{2, 1, 1}, all_of<full, activations<1>, gpipe>},
    {{2, 1, 1}, all_of<full, activations<2>, gpipe>},
    {{2, 1, 1, 4, 0, 2}, all_of<full, activations<1>>},
    {{1, 2, 1}, all_of<full, activations<1>, gpipe, rows>},
    {{1, 2, 1}, all_of<layers<1>, groups<2>>},
    {{1, 1, 2, 4, 3}, all_of<full, layers<2>, drop>},
    {{4, 1, 1}, all_of<full, activations<1>>},
    {{4, 1, 1}, all_of<full, layers<2>>},
    {{1, 1, 1}, layers<2>},  // without recomputation, all that blocks keep
    {{1, 1, 1, 4}, all_of<layers<4>, drop>},
    {{1, 2, 1, 2}, all_of<layers<3>, rows>},
    {{1, 1, 2, 2, 3}, layers<2>},
    {{2, 1, 1}, layers<2>},
    {{2, 2, 1}, all_of<full, activations<1>, gpipe>},
    {{2, 2, 1}, all_of<full, layers<2>, gpipe, rows>},
    {{1, 1, 4, 1, 3}, all_of<full, layers<2>>},
    {{2, 1, 2, 4, 3}, all_of<full, activations<1>, gpipe>},
};

}  // namespace

TEST_CASE_ON_RANKS("offloaded activations train alike", "[agree][mpi]") {
  World& world = test_world();
  for_each_variant(variants, world,
                   [&](const Model& model, const Plan& plan) { check_plan(model, plan, world); });
}
