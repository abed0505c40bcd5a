// Ranks that share the experts train the model that one process trains: routing is per sequence, so
// degrees do not change who takes which token. (Expert parallelism leaves every product of the
// forward pass as it is; only sums of gradients come in another order.)
#include <cmath>

#include "exec/comm/self.h"
#include "tests/agree/training.h"
#include "tests/catch.h"
#include "tests/exec/worlds.h"

using namespace meshwright;

namespace {

struct Variant {
  const char* name;
  int expert;
  SmallDegrees degrees;
  void (*change)(Plan& plan);
};

void nothing(Plan&) {}
void full(Plan& plan) { plan.training.recompute = Recompute::full; }
void experts_again(Plan& plan) {
  plan.training.recompute_modules = {"model.layers.*.block_sparse_moe"};
}
void pruned(Plan& plan) {
  full(plan);
  plan.training.compiler = CompilerLevel::full;
}
void in_pairs(Plan& plan) { plan.parallelism.shard = 2; }
void zero_bubble(Plan& plan) { plan.parallelism.schedule = ScheduleKind::zero_bubble; }
void in_line(Plan& plan) {
  plan.parallelism.overlap_gradients = plan.parallelism.overlap_parameters = false;
}
void spread(Plan& plan) { plan.parallelism.placement = "spread"; }
void in_pairs_spread(Plan& plan) {
  in_pairs(plan);
  spread(plan);
}
void small_ones_whole(Plan& plan) { plan.parallelism.persistence_threshold = 2000; }
void offloaded(Plan& plan) {
  full(plan);
  plan.parallelism.offload = "activations";
}
void pieces(Plan& plan) { plan.training.fuse_gradient_accumulation = false; }

constexpr Variant variants[] = {
    {"one process, recomputed", 1, {}, full},
    {"one process, pruned", 1, {}, pruned},
    {"one process, experts recomputed", 1, {}, experts_again},
    {"pipeline", 1, {2, 1, 1}, nothing},
    {"interleaved", 1, {2, 1, 1, 4, 0, 2}, nothing},
    {"ZeRO 3", 1, {1, 1, 2, 4, 3}, nothing},
    {"expert 2", 2, {1, 1, 2}, nothing},
    {"expert 2, in line", 2, {1, 1, 2}, in_line},
    {"expert 2, recomputed", 2, {1, 1, 2}, full},
    {"expert 2, pruned", 2, {1, 1, 2}, pruned},
    {"expert 2, experts recomputed", 2, {1, 1, 2}, experts_again},
    {"expert 2, offloaded", 2, {1, 1, 2}, offloaded},
    {"expert 2, gradients added by themselves", 2, {1, 1, 2}, pieces},
    {"expert 2, ZeRO 1", 2, {1, 1, 2, 4, 1}, nothing},
    {"expert 2, ZeRO 2", 2, {1, 1, 2, 4, 2}, nothing},
    {"expert 2, ZeRO 3", 2, {1, 1, 2, 4, 3}, nothing},
    {"expert 4", 4, {1, 1, 4}, nothing},
    {"expert 4, ZeRO 3", 4, {1, 1, 4, 1, 3}, nothing},
    {"expert 4, ZeRO 2 in pairs", 4, {1, 1, 4, 1, 2}, in_pairs},
    {"expert 2 of 4", 2, {1, 1, 4}, nothing},
    {"expert 2 of 4, spread", 2, {1, 1, 4}, spread},
    {"expert 2 of 4, ZeRO 1", 2, {1, 1, 4, 1, 1}, nothing},
    {"expert 2 of 4, ZeRO 2, recomputed", 2, {1, 1, 4, 1, 2}, full},
    {"expert 2 of 4, ZeRO 3", 2, {1, 1, 4, 1, 3}, nothing},
    {"expert 2 of 4, ZeRO 3, in line", 2, {1, 1, 4, 1, 3}, in_line},
    {"expert 2 of 4, ZeRO 3, small ones whole", 2, {1, 1, 4, 1, 3}, small_ones_whole},
    {"expert 2 of 4, ZeRO 1 in pairs", 2, {1, 1, 4, 1, 1}, in_pairs},
    {"expert 2 of 4, ZeRO 3 in pairs", 2, {1, 1, 4, 1, 3}, in_pairs},
    {"expert 2 of 4, ZeRO 3 in pairs, spread", 2, {1, 1, 4, 1, 3}, in_pairs_spread},
    {"expert 2 with stages", 2, {2, 1, 2}, nothing},
    {"expert 2 with stages, recomputed", 2, {2, 1, 2}, full},
    {"expert 2 with stages, zero_bubble", 2, {2, 1, 2}, zero_bubble},
    {"expert 2 with stages, ZeRO 3", 2, {2, 1, 2, 4, 3}, nothing},
    {"expert 2 with interleaved stages", 2, {2, 1, 2, 4, 0, 2}, nothing},
};

Plan plan_of(const Model& model, const Variant& variant) {
  Plan plan = base_plan(model, variant.degrees);
  if (variant.degrees.data == 4) plan.training.micro_batch = 1;
  plan.training.optimizer = OptimizerKind::sgd;
  plan.parallelism.expert = variant.expert;
  variant.change(plan);
  return plan;
}

int ranks_of(const SmallDegrees& d) { return d.pipeline * d.tensor * d.data; }

template <typename Check>
void for_variants(const Check& check) {
  int found = 0;
  for (const Variant& variant : variants) {
    if (ranks_of(variant.degrees) != test_world().size()) continue;
    INFO(variant.name);
    check(variant);
    ++found;
  }
  CHECK(found > 0);
}

}  // namespace

TEST_CASE("ranks that share the experts train like one process", "[agree][mpi]") {
  const Model model = small_model("mixtral");
  for_variants(
      [&](const Variant& variant) { check_plan(model, plan_of(model, variant), test_world()); });
}

TEST_CASE("AdamW and clipping see every expert once", "[agree][mpi]") {
  World& world = test_world();
  const Model model = small_model("mixtral");
  Plan alone = on_one_process(base_plan(model, {}));
  alone.training.gradient_clip = 0.05;  // always: the norm decides
  const auto one = make_self_world({});
  const Trained expected = train(model, alone, *one);
  for_variants([&](const Variant& variant) {
    Plan plan = plan_of(model, variant);
    plan.training.optimizer = OptimizerKind::adamw;
    plan.training.gradient_clip = alone.training.gradient_clip;
    const Trained got = train(model, plan, world), again = train(model, plan, world);
    compare_losses(got, expected);
    CHECK(got.losses == again.losses);
    if (world.rank() != 0) return;
    CHECK(got.hash == again.hash);
    compare_all(got, expected);
  });
}

TEST_CASE("no token is dropped where every expert has room for all", "[agree][mpi]") {
  Model model = small_model("mixtral");
  model.expert_capacity_factor = 2;  // experts / experts_per_token
  Model unbounded = model;
  unbounded.expert_capacity_factor = 0;
  Model narrow = model;
  narrow.expert_capacity_factor = 1;
  const auto one = make_self_world({});
  const Plan plan = on_one_process(base_plan(model, {}));
  const Trained wide = train(model, plan, *one);
  CHECK(wide.losses == train(unbounded, plan, *one).losses);
  CHECK(wide.losses != train(narrow, plan, *one).losses);
}

TEST_CASE("the balancing loss is part of the loss on every stage, and trains", "[agree][mpi]") {
  Model model = small_model("mixtral");
  const auto one = make_self_world({});
  const Plan plan = on_one_process(base_plan(model, {}));
  model.router_aux_loss_coef = 0;
  const Trained without = train(model, plan, *one);
  model.router_aux_loss_coef = 0.5;
  const Trained with = train(model, plan, *one);
  // At the start experts are as good as equally probable: each of 2 choices counts 1.
  CHECK(with.losses[0] - without.losses[0] == Approx(0.5 * 2).epsilon(0.02));
  model.router_aux_loss_coef = 1;
  const Trained more = train(model, plan, *one);
  CHECK(more.losses[0] - with.losses[0] ==
        Approx(with.losses[0] - without.losses[0]).epsilon(1e-5));
  CHECK(with.hash != without.hash);
}

// In 16 bits too the forward pass is the same to the bit; gradients are summed in fp32. What one
// step makes of that is rounded to the same 16 bits but for weights that lie just between two.
TEST_CASE("experts in 16 bits train alike", "[agree][mpi]") {
  World& world = test_world();
  const Model model = small_model("mixtral");
  const Precision precision = GENERATE(Precision::bf16, Precision::fp16);
  const double unit = precision == Precision::fp16 ? 0x1p-11 : 0x1p-8;
  for_variants([&](const Variant& variant) {
    Plan plan = plan_of(model, variant);
    plan.training.precision = precision;
    if (precision == Precision::fp16) plan.training.loss_scale = LossScale{.initial = 1024};
    Plan alone = on_one_process(plan);
    alone.training.micro_batch = plan.training.micro_batch;
    alone.training.compiler = CompilerLevel::fused;
    const auto one = make_self_world({});
    const Trained expected = train(model, alone, *one), got = train(model, plan, world);
    CHECK(got.losses[0] == Approx(expected.losses[0]).epsilon(1e-12));
    for (std::size_t i = 0; i < got.losses.size(); ++i)
      CHECK(std::fabs(got.losses[i] - expected.losses[i]) <= 0.12 * unit);  // precision_test.cpp
  });
}
