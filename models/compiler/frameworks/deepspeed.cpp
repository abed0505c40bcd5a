// This file lists which plans DeepSpeed's ZeRO and tensor parallelism can express.
#include <cmath>

#include "models/compiler/frameworks/deepspeed.h"

#include "models/compiler/frameworks/huggingface.h"
#include "models/compiler/frameworks/limit_rows.h"
#include "models/compiler/frameworks/pytorch.h"

namespace meshwright::compiler {

namespace {

ReduceGradients reduction_of(const Plan& plan) {
  return plan.parallelism.zero_stage >= 2 ? ReduceGradients::each : ReduceGradients::last;
}

// Without ZeRO, gradients are summed after the backward, so they overlap with nothing. Gathers
// overlap with compute only under ZeRO 3. One replica communicates neither, so it counts as
// overlapping.
bool can_overlap_gradients(const Plan& plan) {
  return plan.parallelism.zero_stage > 0 || replicas_of(plan) == 1;
}
bool overlaps_parameters(const Plan& plan) {
  return plan.parallelism.zero_stage == 3 || replicas_of(plan) == 1;
}

std::int64_t gradient_bytes(const Plan& plan) { return bytes_of(plan.training.gradient_reduce); }

bool is_known_bucket(const Plan& plan) {
  const std::int64_t bytes = plan.parallelism.reduce_bucket_bytes, each = gradient_bytes(plan);
  if (plan.parallelism.zero_stage == 0) return bytes == deepspeed_bucket_elements * each;
  return bytes > 0 && bytes % each == 0;
}

void take_known_bucket(Plan& plan) {
  std::int64_t& bytes = plan.parallelism.reduce_bucket_bytes;
  const std::int64_t each = gradient_bytes(plan);
  bytes = plan.parallelism.zero_stage == 0 ? deepspeed_bucket_elements * each
                                           : std::max<std::int64_t>(1, bytes / each) * each;
}

bool is_pure_bf16(const Training& t) {
  return t.master_weights == MasterWeights::none && t.moments == Dtype::bf16;
}

bool keeps_known_states(const Plan& plan) {
  const Training& t = plan.training;
  if (t.master_weights == MasterWeights::fp32 && t.moments == Dtype::f32) return true;
  return is_pure_bf16(t) && t.precision == Precision::bf16 && plan.parallelism.zero_stage > 0 &&
         t.gradient_reduce == Dtype::bf16;
}

bool is_known_scale(const Training& t) {
  if (!t.loss_scale || !t.loss_scale->dynamic) return true;
  const LossScale& scale = *t.loss_scale;
  const double power = std::log2(scale.initial);
  return scale.factor == 2 && power == std::round(power) && power >= 0 && scale.minimum >= 1 &&
         scale.minimum == std::round(scale.minimum);
}

constexpr Limit own[] = {
    only<&Training::fp8_gathers, false>("training.fp8_gathers", "gathers weights in 16 bits"),
    {"parallelism.context_exchange", "exchanges heads (Ulysses: all_to_all)",
     [](const Plan& p, const Model&) { return p.parallelism.attends_to_whole_sequences(); },
     [](Plan& p, const Model& m) {
       const int ranks = p.parallelism.tensor * p.parallelism.context;
       p.parallelism.context_exchange = ContextExchange::all_to_all;
       if (m.heads % ranks == 0 && m.kv_heads % ranks == 0) return;
       p.parallelism.data *= p.parallelism.context;
       p.parallelism.context = 1;
     }},
    {"parallelism.shard", "shards over a part of the replicas (MiCS) with zero_stage 3 only",
     [](const Plan& p, const Model&) {
       return p.parallelism.shard == 1 || p.parallelism.zero_stage == 3;
     },
     [](Plan& p, const Model&) { p.parallelism.shard = 1; }},
    {"parallelism.reduce_gradients",
     "reduces gradients once a step up to zero_stage 1, and in every micro-batch from 2 on",
     [](const Plan& p, const Model&) { return p.parallelism.reduce_gradients == reduction_of(p); },
     [](Plan& p, const Model&) { p.parallelism.reduce_gradients = reduction_of(p); }},
    only<&Parallelism::keeps_gathered, false>("parallelism.reshard_after_forward",
                                              "drops gathered parameters after each forward"),
    {"parallelism.overlap",
     "has gradients beside compute with ZeRO (overlap_comm), parameters with zero_stage 3 always, "
     "and tensor communication where tp_overlap_comm says so",
     [](const Plan& p, const Model&) {
       return (can_overlap_gradients(p) || !p.parallelism.overlap_gradients) &&
              p.parallelism.overlap_parameters == overlaps_parameters(p);
     },
     [](Plan& p, const Model&) {
       p.parallelism.overlap_gradients =
           p.parallelism.overlap_gradients && can_overlap_gradients(p);
       p.parallelism.overlap_parameters = overlaps_parameters(p);
     }},
    only<&Parallelism::tensor_chunks, 1>("parallelism.tensor_chunks", "does not cut products"),
    {"training.precision", "has fp32, fp16 and bf16",
     [](const Plan& p, const Model&) {
       return !quantizes(p.training.precision) && p.training.precision != Precision::tf32 &&
              p.training.precision != Precision::fp64;
     },
     [](Plan& p, const Model&) { p.training.precision = Precision::bf16; }},
    {"training.gradient_reduce_precision", "reduces in fp32, or in the type of the weights",
     [](const Plan& p, const Model&) {
       return p.training.gradient_reduce == Dtype::f32 ||
              p.training.gradient_reduce == storage_of(p.training.precision);
     },
     [](Plan& p, const Model&) { p.training.gradient_reduce = Dtype::f32; }},
    {"training.master_weights",
     "keeps weights and moments in fp32, or with ZeRO all in bf16, gradients too",
     [](const Plan& p, const Model&) { return keeps_known_states(p); },
     [](Plan& p, const Model&) {
       p.training.master_weights = MasterWeights::fp32;
       p.training.moments = Dtype::f32;
     }},
    {"parallelism.reduce_bucket_bytes",
     "counts buckets in elements; without ZeRO they have 500000000",
     [](const Plan& p, const Model&) { return is_known_bucket(p); },
     [](Plan& p, const Model&) { take_known_bucket(p); }},
    {"training.loss_scale", "halves scales (factor 2) that are powers of two, not below 1",
     [](const Plan& p, const Model&) { return is_known_scale(p.training); },
     [](Plan& p, const Model&) {
       LossScale& scale = *p.training.loss_scale;
       scale.factor = 2;
       scale.initial = std::exp2(std::max(0.0, std::round(std::log2(scale.initial))));
       scale.minimum = std::max(1.0, std::round(scale.minimum));
     }},
    {"training.optimizer", "has adamw, adam and lamb",
     [](const Plan& p, const Model&) {
       return p.training.optimizer == OptimizerKind::adamw ||
              p.training.optimizer == OptimizerKind::adam ||
              p.training.optimizer == OptimizerKind::lamb;
     },
     [](Plan& p, const Model&) { p.training.optimizer = OptimizerKind::adamw; }},
};
const std::vector<Limit> rows = joined({own, trainer_limits(), pytorch_limits()});

void settle(Plan& plan, const Model& model) {
  settle_as_trainer(plan, model);
  Parallelism& p = plan.parallelism;
  if (p.reduce_gradients == ReduceGradients::usual || replicas_of(plan) == 1)
    p.reduce_gradients = reduction_of(plan);
  if (p.reduce_bucket_bytes == 0 || p.zero_stage == 0)
    p.reduce_bucket_bytes = deepspeed_bucket_elements * gradient_bytes(plan);
  if (p.zero_stage == 3 && p.max_live_parameters == 0)
    p.max_live_parameters = deepspeed_live_parameters;
  if (!can_overlap_gradients(plan)) p.overlap_gradients = false;
  p.overlap_parameters = overlaps_parameters(plan);
  Training& t = plan.training;
  if (!t.scales_loss())
    t.loss_scale.reset();
  else if (!t.loss_scale)
    t.loss_scale = t.settled_loss_scale();
}

}  // namespace

const FrameworkLimits deepspeed_limits = {rows, settle};

}  // namespace meshwright::compiler
