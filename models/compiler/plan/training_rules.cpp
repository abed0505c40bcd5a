// The rules about a model's training.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "models/compiler/plan/rules.h"
#include "models/core/error.h"

namespace meshwright::compiler {

namespace {

Ruling check_length(const Plan& plan, const ModelSizes& model) {
  constexpr std::string_view key = "/training/sequence_length";
  const int length = plan.training.sequence_length, positions = model.positions;
  return Judge()
      .at_least(key, length, 1)
      .refuse_if(model.learned_positions && positions > 0 && length > positions, key,
                 "{} exceeds the model's {} learned positions; use {} or less", length, positions,
                 positions)
      .refuse_if(model.reads_images && length != positions, key,
                 "{} is not the length of an image, a class token and {} patches; use {}", length,
                 positions - 1, positions);
}

Ruling check_recompute(const Plan& plan, const ModelSizes&) {
  constexpr std::string_view key = "/training/recompute_budget";
  const Training& t = plan.training;
  const bool is_chosen = t.recompute != Recompute::none, has_list = !t.recompute_modules.empty();
  const double budget = t.recompute_budget.value_or(1);
  const std::string word = recompute_word(t);
  return Judge()
      .within("/training/recompute_fraction", t.recompute_fraction, 0, 1)
      .at_least("/training/recompute", t.recompute == Recompute::group ? t.recompute_group : 1, 1)
      .refuse_if(has_list && is_chosen, "/training/recompute_modules",
                 "given beside recompute '{}'; keep one of them", word)
      .refuse_if(!(budget > 0), key,
                 "{} is too small; use a share up to 1 of the activations kept without "
                 "recomputation, or bytes",
                 budget)
      .refuse_if(t.recompute_budget && is_chosen, key,
                 "given beside recompute '{}'; keep one of them", word)
      .refuse_if(t.recompute_budget && has_list, key,
                 "given beside recompute_modules; keep one of them")
      .refuse_if(t.recompute_budget && t.recompute_fraction < 1, key,
                 "given beside recompute_fraction {}; keep one of them", t.recompute_fraction);
}

Ruling check_rows_and_layers(const Plan& plan, const ModelSizes& model) {
  constexpr std::string_view key = "/training/documents_per_row";
  const Training& t = plan.training;
  const double documents = t.documents_per_row.value_or(1);
  return Judge()
      .refuse_if(t.predicted_positions < 0 || t.predicted_positions > t.sequence_length,
                 "/training/predicted_positions", "{} is not in 1 to sequence_length {}",
                 t.predicted_positions, t.sequence_length)
      .below("/training/dropout", t.dropout, 0, 1)
      .refuse_if(t.fp8_experts && !quantizes(t.precision), "/training/fp8_experts",
                 "experts multiply 8 bits in precision fp8 alone, and 4 in nvfp4, not in {}; leave "
                 "it out, or use fp8",
                 name_of(t.precision))
      .refuse_if(!(documents >= 1 && documents <= t.sequence_length), key,
                 "{} is not in 1 to sequence_length {}", documents, t.sequence_length)
      .refuse_if(
          !t.packing && t.documents_per_row, key,
          "goes with packing true, which tells documents of a row apart; leave it out, or use that")
      .refuse_if(t.packing && !model.can_pack, "/training/packing",
                 "packs documents of models that say the next token (head 'lm', not those read "
                 "from ONNX); leave it out");
}

Ruling check_tokens_ahead(const Plan& plan, const ModelSizes& model) {
  constexpr std::string_view key = "/training/mtp_layers", weight_key = "/training/mtp_loss_weight";
  const Training& t = plan.training;
  const double weight = t.mtp_loss_weight.value_or(0);
  const bool is_asked = t.mtp_layers > 0;
  return Judge()
      .refuse_if(t.mtp_layers < 0 || t.mtp_layers > most_mtp_layers, key, "{} is not in 0 to {}",
                 t.mtp_layers, most_mtp_layers)
      .refuse_if(!(weight >= 0 && std::isfinite(weight)), weight_key, "{} must be 0 or more",
                 weight)
      .refuse_if(!is_asked && t.mtp_loss_weight, weight_key,
                 "is of multi-token prediction; leave it out, or give mtp_layers")
      .refuse_if(is_asked && !model.can_predict_ahead, key,
                 "multi-token prediction is of decoders with RMSNorms and without learned "
                 "positions, whose head says the next token; leave it out")
      .refuse_if(is_asked && t.sequence_length <= t.mtp_layers, key,
                 "the last of {} layers would predict no token of sequence_length {}; use fewer",
                 t.mtp_layers, t.sequence_length)
      .not_yet_if(is_asked && t.packing, key, "multi-token prediction with training.packing")
      .not_yet_if(is_asked && t.lora, key, "multi-token prediction with training.lora");
}

Ruling check_layers_in_bf16(const Plan& plan, const ModelSizes& model) {
  const Training& t = plan.training;
  const int first = t.first_layers_in_bf16, last = t.last_layers_in_bf16;
  const char* key = first > 0 ? "/training/first_layers_in_bf16" : "/training/last_layers_in_bf16";
  const bool are_asked = t.has_layers_in_bf16();
  return Judge()
      .at_least("/training/first_layers_in_bf16", first, 0)
      .at_least("/training/last_layers_in_bf16", last, 0)
      .refuse_if(are_asked && !quantizes(t.precision), key,
                 "layers multiply 8 or 4 bits in precision fp8 and nvfp4 alone, not in {}; leave "
                 "it out, or use one of them",
                 name_of(t.precision))
      .refuse_if(are_asked && std::int64_t{first} + last > model.layers, key,
                 "{} first and {} last layers are more than the model's {}", first, last,
                 model.layers);
}

Ruling check_loss_scale(const Plan& plan, const ModelSizes&) {
  const Training& t = plan.training;
  if (!t.loss_scale) return {};
  const LossScale scale = t.loss_scale->dynamic ? *t.loss_scale : LossScale{};
  return Judge()
      .refuse_if(t.precision != Precision::fp16, "/training/loss_scale",
                 "only fp16 is scaled, the precision is {}; leave it out", name_of(t.precision))
      .refuse_if(!(t.loss_scale->initial > 0),
                 scale.dynamic ? "/training/loss_scale/initial" : "/training/loss_scale/static",
                 "must be above 0")
      .refuse_if(!(scale.factor > 1), "/training/loss_scale/factor", "must be above 1")
      .refuse_if(!(scale.minimum > 0), "/training/loss_scale/minimum", "must be above 0")
      .at_least("/training/loss_scale/window", scale.window, 1)
      .at_least("/training/loss_scale/hysteresis", scale.hysteresis, 1);
}

Ruling check_lora(const Plan& plan, const ModelSizes&) {
  const Training& t = plan.training;
  if (!t.lora) return {};
  return Judge()
      .at_least("/training/lora/rank", t.lora->rank, 1)
      .refuse_if(!(t.lora->alpha > 0), "/training/lora/alpha", "must be above 0")
      .below("/training/lora/dropout", t.lora->dropout, 0, 1)
      .refuse_if(t.lora->target_modules.empty(), "/training/lora/target_modules",
                 "names no module; use 'all-linear', or names of layers")
      .refuse_if(
          t.memory_of != MemoryOf::engine, "/training/memory_of",
          "what frameworks hold is known of whole-model training; use 'engine', or leave lora out");
}

// Checks how adapters' frozen base weights are stored.
Ruling check_base_weights(const Plan& plan, const ModelSizes& model) {
  if (!plan.training.lora) return {};
  const Lora& lora = *plan.training.lora;
  const bool in_4_bits = lora.base_weights != BaseWeights::unquantized;
  const bool in_groups = lora.base_weights == BaseWeights::int4;
  const std::vector<int> sizes = group_sizes();
  std::vector<std::string> words;
  for (const int size : sizes) words.push_back(std::to_string(size));
  return Judge()
      .refuse_if(lora.double_quantization && lora.base_weights != BaseWeights::nf4,
                 "/training/lora/double_quantization",
                 "is for base_weights 'nf4'; use that, or leave it out")
      .refuse_if(lora.group_size != 0 && !in_groups, "/training/lora/group_size",
                 "is for base_weights 'int4'; use that, or leave it out")
      .refuse_if(lora.group_size != 0 && std::ranges::count(sizes, lora.group_size) == 0,
                 "/training/lora/group_size", "{} is no size of a group; use {}", lora.group_size,
                 list_of(words))
      .not_yet_if(in_4_bits && model.experts > 0, "/training/lora/base_weights",
                  "'{}' in a model with experts",
                  base_weights_names()[static_cast<std::size_t>(lora.base_weights)])
      .refuse_if(in_4_bits && plan.parallelism.tensor > 1, "/parallelism/tensor",
                 "{} would cut weights in 4 bits (training.lora.base_weights); use 1",
                 plan.parallelism.tensor);
}

Ruling check_optimizer(const Plan& plan, const ModelSizes&) {
  constexpr double huge = 1e9;
  const Training& t = plan.training;
  return Judge()
      .at_least("/training/steps", t.steps, 1)
      .at_least("/training/warmup_steps", t.warmup_steps, 0)
      .within("/training/learning_rate", t.learning_rate, 0, huge)
      .within("/training/weight_decay", t.weight_decay, 0, huge)
      .within("/training/gradient_clip", t.gradient_clip, 0, huge)
      .within("/training/gradient_clip_value", t.gradient_clip_value, 0, huge)
      .refuse_if(t.gradient_clip > 0 && t.gradient_clip_value > 0, "/training/gradient_clip_value",
                 "given beside gradient_clip; keep one of them")
      .at_least("/training/decay_steps", t.decay_steps, 0)
      .refuse_if(
          t.decay_steps > 0 &&
              t.learning_rate_schedule != LearningRateSchedule::warmup_stable_decay,
          "/training/decay_steps",
          "goes with learning_rate_schedule 'warmup_stable_decay'; leave it out, or use that")
      .below("/training/momentum", t.momentum, 0, 1)
      .below("/training/beta1", t.beta1, 0, 1)
      .below("/training/beta2", t.beta2, 0, 1)
      .above_zero("/training/adafactor/eps1", t.adafactor.eps1)
      .above_zero("/training/adafactor/clip_threshold", t.adafactor.clip_threshold)
      .below("/training/adafactor/eps2", t.adafactor.eps2, 0, huge)
      .within("/training/adafactor/decay_rate", t.adafactor.decay_rate, -1, 0)
      .above_zero("/training/epsilon", t.epsilon);
}

// Checks the precision of master weights and moments.
Ruling check_states(const Plan& plan, const ModelSizes&) {
  const Training& t = plan.training;
  const bool is_adam = t.optimizer == OptimizerKind::adamw || t.optimizer == OptimizerKind::adam;
  return Judge()
      .refuse_if(
          t.master_weights == MasterWeights::remainders && storage_of(t.precision) != Dtype::bf16,
          "/training/master_weights",
          "remainders are what bf16 lacks of fp32, precision {} stores no bf16; use bf16, or "
          "'fp32'",
          name_of(t.precision))
      .refuse_if(t.moments_at_random && t.moments != Dtype::bf16, "/training/moments_rounding",
                 "'stochastic': moments in {}; use moments_precision 'bf16', or 'nearest'",
                 t.moments == Dtype::f32 ? "fp32 are not rounded" : "8 bits are rounded to nearest")
      .not_yet_if(is_in_blocks(t.moments) && !is_adam, "/training/moments_precision",
                  "'8bit' with optimizer '{}' (adamw and adam have it)",
                  optimizer_names()[static_cast<std::size_t>(t.optimizer)])
      .below("/training/ema_decay", t.ema_decay, 0, 1);
}

// Checks that only captured models, which PyTorch computes, are trained in fp64. Gradients and
// moments must be in fp64 in that precision, and must not be in others.
Ruling check_fp64(const Plan& plan, const ModelSizes& model) {
  const Training& t = plan.training;
  const bool is_wide = t.precision == Precision::fp64;
  const bool by_matrices =
      t.optimizer == OptimizerKind::muon || t.optimizer == OptimizerKind::adafactor;
  constexpr std::string_view together =
      "is 'fp64' in precision fp64 and in no other, the precision is {}; leave it out";
  return Judge()
      .refuse_if(is_wide && !model.captured, "/training/precision",
                 "fp64 is for captured models, which PyTorch computes; use fp32")
      .refuse_if(is_wide != (t.gradient_reduce == Dtype::f64),
                 "/training/gradient_reduce_precision", together, name_of(t.precision))
      .refuse_if(is_wide != (t.moments == Dtype::f64), "/training/moments_precision", together,
                 name_of(t.precision))
      .not_yet_if(is_wide && by_matrices, "/training/optimizer", "'{}' in precision fp64",
                  optimizer_names()[static_cast<std::size_t>(t.optimizer)]);
}

Ruling check_fp8_gathers(const Plan& plan, const ModelSizes&) {
  constexpr std::string_view key = "/training/fp8_gathers";
  const Training& t = plan.training;
  if (!t.fp8_gathers) return {};
  return Judge()
      .refuse_if(t.precision != Precision::fp8, key,
                 "weights are rounded to 8 bits in precision fp8 alone, not in {}; leave it out, "
                 "or use fp8",
                 name_of(t.precision))
      .refuse_if(t.fp8_recipe != Fp8Recipe::tensorwise, key,
                 "weights that are gathered in 8 bits have one scale each, which fp8_recipe '{}' "
                 "has not; use 'tensorwise', or leave it out",
                 fp8_recipe_names()[static_cast<std::size_t>(t.fp8_recipe)])
      .refuse_if(plan.parallelism.zero_stage < 3 && plan.degrees().rdp() > 1, key,
                 "weights are gathered for their products under zero_stage 3 alone, found {}; use "
                 "3 (with reshard_after_forward 'never' and reduce_gradients 'last' it is "
                 "zero_stage 1 in all else), or leave it out",
                 plan.parallelism.zero_stage);
}

}  // namespace

Ruling broken_training_rule(const Plan& plan, const ModelSizes& model) {
  return first_broken({check_length, check_recompute, check_rows_and_layers, check_tokens_ahead,
                       check_layers_in_bf16, check_loss_scale, check_lora, check_base_weights,
                       check_optimizer, check_states, check_fp64, check_fp8_gathers},
                      plan, model);
}

}  // namespace meshwright::compiler
