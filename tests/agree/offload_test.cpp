// Checks that tensors which wait in host memory come back unchanged, so that the model trains
// identically.
#include "tests/agree/variants.h"
#include "tests/exec/on_ranks.h"

using namespace meshwright::tests;

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

template <OptimizerKind kind>
void by(Plan& plan) {
  plan.training.optimizer = kind;
}
constexpr Change by_adamw = by<OptimizerKind::adamw>, by_lamb = by<OptimizerKind::lamb>,
                 by_lion = by<OptimizerKind::lion>;
template <Precision precision>
void in(Plan& plan) {
  plan.training.precision = precision;
}
constexpr Change fp16 = in<Precision::fp16>, bf16 = in<Precision::bf16>;
void remainders(Plan& plan) {
  bf16(plan);
  plan.training.master_weights = MasterWeights::remainders;
  plan.training.moments = Dtype::bf16;
}
void at_random(Plan& plan) {
  plan.training.moments = Dtype::bf16;
  plan.training.moments_at_random = true;
}
void with_8_bits(Plan& plan) { plan.training.moments = Dtype::block8; }
void averaged(Plan& plan) { plan.training.ema_decay = 0.9; }
void in_one_bucket(Plan& plan) { plan.parallelism.reduce_bucket_bytes = 1 << 30; }
void many_buckets(Plan& plan) { plan.parallelism.reduce_bucket_bytes = 8'192; }

constexpr Variant offload_variants[] = {
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

// Variants whose optimizer states are offloaded to host memory.
constexpr Variant with_states[] = {
    {{1, 1, 1}, all_of<by_adamw, many_buckets>},
    {{1, 1, 1}, all_of<by_adamw, bf16>},
    {{1, 1, 1}, all_of<by_lamb, bf16, many_buckets>},
    {{1, 1, 1}, all_of<by_lamb, in_one_bucket>},
    {{1, 1, 1}, all_of<by_lamb, averaged, many_buckets>},
    {{1, 1, 1}, all_of<by_lion, fp16, many_buckets>},
    {{1, 1, 1}, all_of<by_adamw, remainders, many_buckets, pruned>},
    {{1, 1, 1}, all_of<by_adamw, remainders, at_random, many_buckets>},
    {{1, 1, 1}, all_of<by_adamw, remainders, with_8_bits, many_buckets>},
    {{1, 1, 1}, all_of<by_adamw, fp16, eager, unfused>},
    {{2, 1, 1}, all_of<by_adamw, fp16, many_buckets, zero_bubble>},
    {{1, 2, 1}, all_of<by_lamb, bf16, many_buckets, rows>},
    {{1, 2, 1}, all_of<by_lion, at_random, many_buckets>},
    {{1, 1, 2, 4, 3}, all_of<by_adamw, bf16, at_random, many_buckets>},
    {{1, 1, 2, 4, 1}, all_of<by_adamw, bf16, many_buckets>},
    {{1, 1, 2, 4, 1}, all_of<by_adamw, with_8_bits, many_buckets>},
    {{1, 1, 2, 2, 2}, all_of<by_lion, fp16, many_buckets>},
    {{1, 1, 2, 4, 3}, all_of<by_adamw, bf16, full>},
    {{1, 1, 2, 4, 3}, all_of<by_lamb, fp16, pruned>},
    {{2, 1, 1, 4, 0, 2}, many_buckets},
    {{4, 1, 1}, all_of<by_adamw, bf16, many_buckets, gpipe>},
    {{1, 1, 4, 2, 3}, all_of<by_adamw, fp16, in_pairs>},
    {{2, 1, 2, 4, 1}, all_of<by_lamb, bf16, many_buckets>},
    {{1, 2, 2, 2, 3}, all_of<by_lion, rows>},
};

}  // namespace

TEST_CASE_ON_RANKS("offloaded activations train alike", "[agree][mpi]") {
  World& world = test_world();
  for_each_variant(offload_variants, world,
                   [&](const Model& model, const Plan& plan) { check_plan(model, plan, world); });
}

TEST_CASE_ON_RANKS("optimizer states that wait on the host change no bit", "[agree][mpi]") {
  World& world = test_world();
  for_each_variant(with_states, world, [&](const Model& model, Plan plan) {
    const Trained kept = train(model, plan, world);
    plan.parallelism.offload = Offload::optimizer;
    const Trained sent = train(model, plan, world);
    CHECK(sent == kept);
  });
}
