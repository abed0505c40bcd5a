// Tests each number of a plan on both sides of its limit: the last value is legal, and the next one
// is rejected with a message about its key.
#include <functional>
#include <string>

#include "models/compiler/plan/plan.h"
#include "tests/catch.h"
#include "tests/message_of.h"

using namespace meshwright::tests;

namespace {

// Returns a model with which every key may be used: it has dropless experts, biases for their
// choice, and RMSNorms.
ModelSizes sizes() {
  ModelSizes model;
  model.hidden = 64;
  model.layers = 6;
  model.heads = model.kv_heads = 4;
  model.ffn = 128;
  model.vocabulary = 100;
  model.experts = 8;
  model.dropless = model.choice_biases = true;
  model.can_pack = model.can_predict_ahead = true;
  return model;
}

Plan legal() {
  Plan plan;
  plan.training.precision = Precision::bf16;
  plan.training.global_batch = 64;
  plan.training.micro_batch = 2;
  plan.training.sequence_length = 16;
  plan.parallelism.data = 4;
  return plan;
}

struct Limit {
  const char* key;
  void (*set)(Training&, Parallelism&, double);
  double last, refused;
};

#define SET(...) [](Training& t, Parallelism& p, double value) { (void)t, (void)p, __VA_ARGS__; }
#define WHOLE static_cast<int>(value)

// Values just below 1 and just above 0.
constexpr double one = 0.999999, tiny = 1e-9;

Lora& lora(Training& t) {
  if (!t.lora) t.lora.emplace().target_modules = {"all-linear"};
  return *t.lora;
}
LossScale& loss_scale(Training& t) {
  t.precision = Precision::fp16;
  if (!t.loss_scale) t.loss_scale.emplace().dynamic = true;
  return *t.loss_scale;
}

const Limit limits[] = {
    {"parallelism/pipeline", SET(p.pipeline = WHOLE), 1, 0},
    {"parallelism/tensor", SET(p.tensor = WHOLE), 1, 0},
    {"parallelism/data", SET(p.data = WHOLE), 1, 0},
    {"parallelism/shard", SET(p.shard = WHOLE), 1, 0},
    {"parallelism/context", SET(p.context = WHOLE), 1, 0},
    {"parallelism/expert", SET(p.expert = WHOLE), 1, 0},
    {"parallelism/virtual_stages", SET(p.virtual_stages = WHOLE), 1, 0},
    {"parallelism/data", SET(p.data = WHOLE, t.micro_batch = 1, t.global_batch = WHOLE), 1'000'000,
     1'000'001},
    {"parallelism/zero_stage", SET(p.zero_stage = WHOLE), 0, -1},
    {"parallelism/zero_stage", SET(p.zero_stage = WHOLE), 3, 4},
    {"parallelism/memory_weight", SET(p.memory_weight = value), 0, -tiny},
    {"parallelism/memory_weight", SET(p.memory_weight = value), 1, 1.001},
    {"parallelism/active_microbatches", SET(p.active_microbatches = WHOLE), 0, -1},
    {"parallelism/offload_horizon", SET(p.offload_horizon = WHOLE), 0, -1},
    {"parallelism/reduce_bucket_bytes", SET(p.reduce_bucket_bytes = WHOLE), 0, -1},
    {"parallelism/max_live_parameters", SET(p.max_live_parameters = WHOLE), 0, -1},
    {"parallelism/persistence_threshold", SET(p.persistence_threshold = WHOLE), 0, -1},
    {"training/global_batch", SET(t.global_batch = WHOLE), 8, 0},
    {"training/micro_batch", SET(t.micro_batch = WHOLE), 1, 0},
    // A step has at most 16384 micro-batches, each of 2 sequences on 4 ranks.
    {"training/global_batch", SET(t.global_batch = WHOLE), 16384 * 8, 16385 * 8},
    {"training/sequence_length", SET(t.sequence_length = WHOLE), 1, 0},
    {"training/predicted_positions", SET(t.predicted_positions = WHOLE), 0, -1},
    {"training/predicted_positions", SET(t.predicted_positions = WHOLE), 16, 17},
    {"training/dropout", SET(t.dropout = value), 0, -tiny},
    {"training/dropout", SET(t.dropout = value), one, 1},
    {"training/router_bias_update_rate", SET(t.router_bias_update_rate = value), 0, -tiny},
    {"training/router_bias_update_rate", SET(t.router_bias_update_rate = value), 1, 1.001},
    {"training/expert_skew", SET(t.expert_skew = value), tiny, -tiny},
    {"training/expert_imbalance", SET(t.expert_imbalance = value), 1, one},
    {"training/steps", SET(t.steps = WHOLE), 1, 0},
    {"training/warmup_steps", SET(t.warmup_steps = WHOLE), 0, -1},
    {"training/decay_steps",
     SET(t.decay_steps = WHOLE,
         t.learning_rate_schedule = LearningRateSchedule::warmup_stable_decay),
     0, -1},
    {"training/decay_steps", SET(t.decay_steps = WHOLE), 0, 1},
    {"training/learning_rate", SET(t.learning_rate = value), 0, -tiny},
    {"training/learning_rate", SET(t.learning_rate = value), 1e9, 1.001e9},
    {"training/weight_decay", SET(t.weight_decay = value), 0, -tiny},
    {"training/weight_decay", SET(t.weight_decay = value), 1e9, 1.001e9},
    {"training/gradient_clip", SET(t.gradient_clip = value), 0, -tiny},
    {"training/gradient_clip", SET(t.gradient_clip = value), 1e9, 1.001e9},
    {"training/gradient_clip_value", SET(t.gradient_clip = 0, t.gradient_clip_value = value), 0,
     -tiny},
    {"training/gradient_clip_value", SET(t.gradient_clip = 0, t.gradient_clip_value = value), 1e9,
     1.001e9},
    {"training/gradient_clip_value", SET(t.gradient_clip = 1, t.gradient_clip_value = value), 0,
     tiny},
    {"training/momentum", SET(t.momentum = value), 0, -tiny},
    {"training/momentum", SET(t.momentum = value), one, 1},
    {"training/beta1", SET(t.beta1 = value), 0, -tiny},
    {"training/beta1", SET(t.beta1 = value), one, 1},
    {"training/beta2", SET(t.beta2 = value), 0, -tiny},
    {"training/beta2", SET(t.beta2 = value), one, 1},
    {"training/epsilon", SET(t.epsilon = value), tiny, 0},
    {"training/ema_decay", SET(t.ema_decay = value), 0, -tiny},
    {"training/ema_decay", SET(t.ema_decay = value), one, 1},
    {"training/adafactor/eps1", SET(t.adafactor.eps1 = value), tiny, 0},
    {"training/adafactor/eps2", SET(t.adafactor.eps2 = value), 0, -tiny},
    {"training/adafactor/eps2", SET(t.adafactor.eps2 = value), 9e8, 1e9},
    {"training/adafactor/clip_threshold", SET(t.adafactor.clip_threshold = value), tiny, 0},
    {"training/adafactor/decay_rate", SET(t.adafactor.decay_rate = value), -1, -1.001},
    {"training/adafactor/decay_rate", SET(t.adafactor.decay_rate = value), 0, tiny},
    {"training/lora/rank", SET(lora(t).rank = WHOLE), 1, 0},
    {"training/lora/alpha", SET(lora(t).alpha = value), tiny, 0},
    {"training/lora/dropout", SET(lora(t).dropout = value), 0, -tiny},
    {"training/lora/dropout", SET(lora(t).dropout = value), one, 1},
    {"training/loss_scale/initial", SET(loss_scale(t).initial = value), tiny, 0},
    {"training/loss_scale/static",
     SET(loss_scale(t).dynamic = false, loss_scale(t).initial = value), tiny, 0},
    {"training/loss_scale/factor", SET(loss_scale(t).factor = value), 1.001, 1},
    {"training/loss_scale/minimum", SET(loss_scale(t).minimum = value), tiny, 0},
    {"training/loss_scale/window", SET(loss_scale(t).window = WHOLE), 1, 0},
    {"training/loss_scale/hysteresis", SET(loss_scale(t).hysteresis = WHOLE), 1, 0},
    {"training/recompute_fraction", SET(t.recompute_fraction = value), 0, -tiny},
    {"training/recompute_fraction", SET(t.recompute_fraction = value), 1, 1.001},
    {"training/recompute", SET(t.recompute = Recompute::group, t.recompute_group = WHOLE), 1, 0},
    {"training/recompute_budget", SET(t.recompute_budget = value), tiny, 0},
    {"training/recompute_budget", SET(t.recompute_budget = 1, t.recompute_fraction = value), 1,
     one},
    {"training/first_layers_in_bf16",
     SET(t.precision = Precision::fp8, t.first_layers_in_bf16 = WHOLE), 0, -1},
    {"training/last_layers_in_bf16",
     SET(t.precision = Precision::fp8, t.last_layers_in_bf16 = WHOLE), 0, -1},
    // The model has six layers.
    {"training/first_layers_in_bf16",
     SET(t.precision = Precision::fp8, t.first_layers_in_bf16 = WHOLE, t.last_layers_in_bf16 = 2),
     4, 5},
    {"training/last_layers_in_bf16",
     SET(t.precision = Precision::fp8, t.last_layers_in_bf16 = WHOLE), 6, 7},
    {"training/first_layers_in_bf16", SET(t.first_layers_in_bf16 = WHOLE), 0, 1},
    {"training/last_layers_in_bf16", SET(t.last_layers_in_bf16 = WHOLE), 0, 1},
    {"training/documents_per_row", SET(t.packing = true, t.documents_per_row = value), 1, one},
    {"training/documents_per_row", SET(t.packing = true, t.documents_per_row = value), 16, 16.001},
    {"training/mtp_layers", SET(t.mtp_layers = WHOLE), 0, -1},
    {"training/mtp_layers", SET(t.mtp_layers = WHOLE), most_mtp_layers, most_mtp_layers + 1},
    // With two tokens in a row, a second layer would have nothing to predict.
    {"training/mtp_layers", SET(t.mtp_layers = WHOLE, t.sequence_length = 2), 1, 2},
    {"training/mtp_loss_weight", SET(t.mtp_layers = 1, t.mtp_loss_weight = value), 0, -tiny},
};

std::string message_with(const Limit& limit, double value) {
  Plan plan = legal();
  limit.set(plan.training, plan.parallelism, value);
  return message_of([&] { verify(plan, sizes()); });
}

}  // namespace

TEST_CASE("a plan's numbers are legal up to their limit, and refused behind it", "[models][plan]") {
  for (const Limit& limit : limits) {
    INFO(limit.key << " " << limit.last << ", " << limit.refused);
    CHECK(message_with(limit, limit.last) == "");
    const std::string error = message_with(limit, limit.refused);
    CHECK(error.find(std::string(limit.key) + ": ") != std::string::npos);
  }
}
