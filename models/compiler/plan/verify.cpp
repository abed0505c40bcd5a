// The rules about a plan and the model that it splits, beginning with the degrees.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <numeric>

#include "models/compiler/plan/context_rules.h"
#include "models/compiler/plan/micro_batch_limit.h"
#include "models/compiler/plan/plan.h"
#include "models/compiler/plan/refuse.h"
#include "models/compiler/plan/units_to_cut.h"
#include "models/compiler/schedule/schedule.h"

namespace meshwright {

namespace {

constexpr int largest_degree = 1'000'000;

void at_least(std::string_view key, std::int64_t value, std::int64_t least) {
  if (value < least) refuse(key, fmt::format("{} is too small; use {} or more", value, least));
}

void within(std::string_view key, double value, double low, double high) {
  if (!(value >= low && value <= high))
    refuse(key, fmt::format("{} is out of range; use {} to {}", value, low, high));
}

void below(std::string_view key, double value, double low, double high) {
  if (!(value >= low && value < high))
    refuse(key,
           fmt::format("{} is out of range; use {} or more and less than {}", value, low, high));
}

void check_degrees(const Parallelism& p) {
  const std::pair<const char*, int> degrees[] = {{"pipeline", p.pipeline},
                                                 {"tensor", p.tensor},
                                                 {"data", p.data},
                                                 {"shard", p.shard},
                                                 {"context", p.context},
                                                 {"expert", p.expert},
                                                 {"virtual_stages", p.virtual_stages}};
  for (const auto& [name, degree] : degrees) {
    const std::string key = std::string("parallelism/") + name;
    at_least(key, degree, 1);
    if (degree > largest_degree)
      refuse(key, fmt::format("{} is too large; use {} or less", degree, largest_degree));
  }
}

// Checks what a tensor group shares besides the weights of matmuls: the batch, the rows, the
// columns.
void check_tensor_shares(const Plan& plan) {
  const Parallelism& p = plan.parallelism;
  const int micro_batch = plan.training.micro_batch;
  if (p.tensor_batch_own && micro_batch % p.tensor != 0)
    refuse(
        "parallelism/tensor_batch",
        fmt::format("'own' gives each of {} tensor ranks its share of micro_batch {}, which does "
                    "not divide; use micro_batch {} or 'shared'",
                    p.tensor, micro_batch, (micro_batch / p.tensor + 1) * p.tensor));
  if (!p.sequence_parallel) return;
  if (p.tensor_layout == TensorLayout::memory)
    refuse("parallelism/sequence_parallel",
           "true does not go with tensor_layout 'memory', whose ranks hold columns of every row; "
           "use false, or layout 'megatron' or 'speed'");
  const int own_length = plan.training.sequence_length / p.context;
  const std::int64_t rows = std::int64_t{micro_batch} * own_length;
  if (rows % p.tensor != 0)
    refuse("parallelism/sequence_parallel",
           fmt::format("tensor {} does not divide micro_batch {} x sequence_length {} = {} rows; "
                       "choose a sequence length that is a multiple of {}",
                       p.tensor, micro_batch, own_length, rows, p.tensor));
}

void check_tensor(const Plan& plan, const ModelSizes& model) {
  const int tensor = plan.parallelism.tensor;
  if (tensor == 1) return;
  const std::pair<const char*, int> sizes[] = {{"heads", model.heads},
                                               {"kv_heads", model.kv_heads},
                                               {"hidden", model.hidden},
                                               {"embedding", model.embedding},
                                               {"ffn", model.ffn},
                                               {"shared_ffn", model.shared_ffn},
                                               {"dense_ffn", model.dense_ffn}};
  int common = 0;
  for (const auto& [name, size] : sizes) common = std::gcd(common, size);
  for (const auto& [name, size] : sizes)
    if (size % tensor != 0)
      refuse("parallelism/tensor",
             fmt::format("{} does not divide {} {}; use ", tensor, size, name),
             divisors_of(common));
  if (model.reads_images && plan.parallelism.tensor_layout == TensorLayout::memory)
    refuse("parallelism/tensor_layout",
           "'memory' gives each rank columns of an embedding, and patches of images have none; use "
           "'megatron' or 'speed'");
  check_tensor_shares(plan);
}

void check_batch(const Plan& plan) {
  const Training& t = plan.training;
  at_least("training/global_batch", t.global_batch, 1);
  at_least("training/micro_batch", t.micro_batch, 1);
  const std::int64_t once = static_cast<std::int64_t>(plan.parallelism.data) * t.micro_batch;
  if (t.global_batch % once == 0 && t.global_batch / once <= most_micro_batches) return;
  if (t.global_batch % once == 0)
    refuse("training/global_batch",
           fmt::format(
               "{} in micro-batches of {} on data {} are {} per step; at most {}: use a larger "
               "micro_batch or data",
               t.global_batch, t.micro_batch, plan.parallelism.data, t.global_batch / once,
               most_micro_batches));
  // The proposed batches satisfy the rule of the schedule too.
  const bool in_groups = schedule_info(plan.parallelism.schedule).in_groups;
  const std::int64_t unit = once * (in_groups ? plan.parallelism.pipeline : 1);
  const std::int64_t lower = t.global_batch / unit * unit;
  std::vector<std::int64_t> choices;
  if (lower > 0) choices.push_back(lower);
  choices.push_back(lower + unit);
  refuse("training/global_batch",
         fmt::format("{} is not a multiple of data {} x micro_batch {} = {}; use ", t.global_batch,
                     plan.parallelism.data, t.micro_batch, once),
         choices);
}

void check_sharding(const Parallelism& p) {
  within("parallelism/zero_stage", p.zero_stage, 0, 3);
  const std::int64_t replicas = static_cast<std::int64_t>(p.data) * p.context;
  for (const auto& [key, degree] :
       {std::pair{"parallelism/shard", p.shard}, std::pair{"parallelism/expert", p.expert}})
    if (replicas % degree != 0)
      refuse(key,
             fmt::format("{} does not divide data {} x context {} = {}; use ", degree, p.data,
                         p.context, replicas),
             divisors_of(replicas));
  if (p.shard > 1 && p.zero_stage == 0)
    refuse("parallelism/shard",
           fmt::format("{} shards nothing with zero_stage 0; use zero_stage 1, 2 or 3, or shard 1",
                       p.shard));
  if (!p.shard_whole) return;
  if (p.zero_stage != 1)
    refuse("parallelism/shard_layout",
           fmt::format("'whole' shares out the optimizer's states, which zero_stage 1 shards; "
                       "found {}; use zero_stage 1, or 'flat'",
                       p.zero_stage));
  if (p.reduce_gradients == ReduceGradients::each)
    refuse("parallelism/reduce_gradients",
           "'each' does not go with shard_layout 'whole', whose owners get the sums of a whole "
           "step; use 'last', or layout 'flat'");
  if (p.shard > 1 && p.shard != replicas)
    refuse("parallelism/shard",
           fmt::format("{} of {} replicas do not go with shard_layout 'whole', which shares "
                       "parameters out over all of them; leave it out, or use 'flat'",
                       p.shard, replicas));
}

void check_router_biases(const Training& t, const ModelSizes& model) {
  constexpr std::string_view key = "training/router_bias_update_rate";
  within(key, t.router_bias_update_rate, 0, 1);
  if (t.router_bias_update_rate == 0) return;
  if (!model.choice_biases)
    refuse(key,
           "the model's routers have no bias that is added for the choice alone; leave it out, or "
           "use a model after DeepSeek-V3");
  if (t.lora) refuse(key, "with lora adapters alone are trained; leave it out, or lora");
  if (t.master_weights == MasterWeights::none && storage_of(t.precision) != Dtype::f32)
    refuse(key,
           "master_weights 'none' rounds biases to 16 bits, in which such small steps are lost; "
           "use 'fp32' or 'remainders', or leave it out");
}

void check_expert_skew(const Training& t, const ModelSizes& model) {
  constexpr std::string_view key = "training/expert_skew";
  if (t.expert_skew == 0) return;
  if (!(t.expert_skew >= 0 && std::isfinite(t.expert_skew)))
    refuse(key, fmt::format("{} must be 0 or more", t.expert_skew));
  if (t.expert_imbalance) refuse(key, "expert_imbalance says it too; use one of them");
  if (!model.dropless)
    refuse(key,
           "goes with experts whose rows are counted; experts with slots work on all of them, full "
           "or empty; leave it out, or use a model with expert_dropless");
}

void check_expert_imbalance(const Training& t, const ModelSizes& model) {
  constexpr std::string_view key = "training/expert_imbalance";
  if (!t.expert_imbalance) return;
  if (!(*t.expert_imbalance >= 1))
    refuse(key, fmt::format("{} is below 1, which is equal use", *t.expert_imbalance));
  if (!model.dropless)
    refuse(key,
           "goes with experts whose rows are counted; experts with slots work on all of them, full "
           "or empty; leave it out, or use a model with expert_dropless");
}

void check_experts(const Plan& plan, const ModelSizes& model) {
  const Parallelism& p = plan.parallelism;
  check_router_biases(plan.training, model);
  check_expert_imbalance(plan.training, model);
  check_expert_skew(plan.training, model);
  if (plan.training.measure_expert_load && model.experts == 0)
    refuse("training/measure_expert_load", "the model has no experts; leave it out");
  if (model.experts > 0 && p.tensor > 1 && p.tensor_layout != TensorLayout::megatron)
    refuse("parallelism/tensor_layout", "experts are cut by layout 'megatron' alone; use it");
  if (model.experts > 0 && p.context > 1 && (!model.dropless || model.balances))
    refuse("parallelism/context",
           fmt::format("{} ranks would share each sequence, and experts take so many tokens of a "
                       "whole one, or balance over it; use 1, or a model with expert_dropless and "
                       "router_aux_loss_coef 0",
                       p.context));
  if (p.expert == 1) return;
  if (model.experts == 0)
    refuse("parallelism/expert",
           fmt::format("{} needs a model with experts; use 1, or family 'mixtral'", p.expert));
  if (model.experts % p.expert != 0)
    refuse("parallelism/expert",
           fmt::format("{} does not divide {} experts; use ", p.expert, model.experts),
           divisors_of(model.experts));
  const Degrees degrees = plan.degrees();
  if (degrees.expert_rdp() % degrees.expert_shard() != 0)
    refuse("parallelism/shard",
           fmt::format("{} does not divide the {} ranks that have the same experts (data {} / "
                       "expert {}); use ",
                       p.shard, degrees.expert_rdp(), p.data, p.expert),
           divisors_of(degrees.expert_rdp()));
}

// Returns the names of the schedules that allow this many virtual stages on a stage, for a message.
std::string schedules_with(int virtual_stages) {
  std::vector<std::string> names;
  for (const ScheduleInfo& each : schedule_kinds())
    if (each.most_chunks >= virtual_stages) names.push_back("'" + std::string(each.name) + "'");
  return list_of(names, "or");
}

void check_schedule(const Plan& plan, const ModelSizes& model) {
  const Parallelism& p = plan.parallelism;
  const int micro_batches = plan.micro_batches();
  const ScheduleInfo& schedule = schedule_info(p.schedule);
  if (p.virtual_stages > schedule.most_chunks)
    refuse("parallelism/virtual_stages",
           fmt::format("{} needs schedule {}, found '{}'; use virtual_stages {} or that schedule",
                       p.virtual_stages, schedules_with(p.virtual_stages), schedule.name,
                       schedule.most_chunks));
  if (p.virtual_stages < schedule.least_chunks && p.pipeline > 1)
    refuse(
        "parallelism/virtual_stages",
        fmt::format("schedule '{}' needs {} for each stage, found {}; use virtual_stages {}",
                    schedule.name, schedule.least_chunks, p.virtual_stages, schedule.least_chunks));
  if (p.virtual_stages > 1 && p.pipeline == 1)
    refuse("parallelism/virtual_stages",
           fmt::format("{} needs a pipeline of 2 or more stages; use virtual_stages 1",
                       p.virtual_stages));
  const std::int64_t chunks = static_cast<std::int64_t>(p.pipeline) * p.virtual_stages;
  // The embedding and the head count as units, because each may have a chunk of its own.
  if (chunks > 1 && chunks > units_to_cut(model))
    refuse("parallelism/pipeline",
           fmt::format("{} x virtual_stages {} = {} chunks, but the model has {} layers, {} and a "
                       "head; use at most {} chunks",
                       p.pipeline, p.virtual_stages, chunks, layers_to_cut(model),
                       model.has_decoder ? "two embeddings" : "an embedding", units_to_cut(model)));
  // If blocks share parameters, every stage has copies of them, even a stage that does not use
  // them.
  if ((model.has_decoder || model.shares_layers) && p.pipeline > 2) {
    const std::string copies = fmt::format(
        "all {} stages have copies of parameters that blocks of this model share", p.pipeline);
    if (p.zero_stage == 3)
      refuse("parallelism/zero_stage", "3 gathers parameters unit by unit, and " + copies +
                                           "; use zero_stage 0 to 2, or at most 2 stages");
    if (plan.reduces_each_micro_batch())
      refuse("parallelism/reduce_gradients",
             fmt::format("zero_stage {} with {} micro-batches reduces gradients in each of them, "
                         "and {}, which are reduced once a step; use {}, or at most 2 stages",
                         p.zero_stage, micro_batches, copies,
                         micro_batches > 1 ? "'last'" : "zero_stage 0 or 1"));
  }
  if (schedule.in_groups && p.pipeline > 1 && micro_batches % p.pipeline != 0)
    refuse("parallelism/schedule",
           fmt::format("'{}' needs micro-batches in multiples of pipeline {}, found {} "
                       "(global_batch {} / (data {} x micro_batch {})); use global_batch {}",
                       schedule.name, p.pipeline, micro_batches, plan.training.global_batch, p.data,
                       plan.training.micro_batch,
                       (micro_batches / p.pipeline + 1) * static_cast<std::int64_t>(p.pipeline) *
                           p.data * plan.training.micro_batch));
  if (schedule.splits_backwards && p.zero_stage == 3)
    refuse("parallelism/zero_stage",
           fmt::format("3 gathers weights and reduces gradients unit by unit in the backward pass, "
                       "half of which schedule '{}' puts off; use zero_stage 0 to 2, or schedule "
                       "'1f1b'",
                       schedule.name));
  if (schedule.splits_backwards && plan.reduces_each_micro_batch())
    refuse("parallelism/reduce_gradients",
           fmt::format("zero_stage {} with {} micro-batches reduces gradients unit by unit in the "
                       "backward pass, which schedule '{}' puts off; use {}, or schedule '1f1b'",
                       p.zero_stage, micro_batches, schedule.name,
                       micro_batches > 1 ? "'last'" : "zero_stage 0 or 1"));
  at_least("parallelism/active_microbatches", p.active_microbatches, 0);
  if (p.active_microbatches != 0 && schedule.forwards_all && p.active_microbatches < micro_batches)
    refuse("parallelism/active_microbatches",
           fmt::format("{} cannot bind '{}', which forwards all {} micro-batches first; use "
                       "schedule '1f1b' or {} or more",
                       p.active_microbatches, schedule.name, micro_batches, micro_batches));
}

void check_partition(const Parallelism& p) {
  within("parallelism/memory_weight", p.memory_weight, 0, 1);
  const int last = p.pipeline * p.virtual_stages - 1;
  for (const auto& [path, stage] : p.manual_stage)
    if (stage < 0 || stage > last)
      refuse("parallelism/partition",
             fmt::format("'{}' is put on stage {}, but stages are 0 to {}", path, stage, last));
  if (p.partitioner == Partitioner::manual && p.manual_stage.empty())
    refuse("parallelism/partition", "no module is given a stage; name some, or use 'auto'");
}

void check_offload(const Plan& plan, const ModelSizes& model) {
  const Parallelism& p = plan.parallelism;
  if (p.offload == Offload::layers && model.has_decoder)
    refuse(
        "parallelism/offload",
        "'layers' leaves a block's input on the device while that block works, and all blocks of "
        "the decoder read what the encoder made; use 'activations'");
  at_least("parallelism/offload_horizon", p.offload_horizon, 0);
  if (p.offload == Offload::layers &&
      (plan.training.recompute == Recompute::selective || !plan.training.recompute_modules.empty()))
    refuse("parallelism/offload",
           "'layers' moves the inputs of whole blocks; use 'activations', or recompute full, "
           "contiguous or group_N");
  if (p.offloads_activations() && plan.training.recompute_budget)
    refuse("parallelism/offload",
           fmt::format("'{}' moves what training.recompute_budget counts as kept; keep one of them",
                       offload_names()[static_cast<std::size_t>(p.offload)]));
}

void check_amounts(const Parallelism& p) {
  at_least("parallelism/reduce_bucket_bytes", p.reduce_bucket_bytes, 0);
  at_least("parallelism/max_live_parameters", p.max_live_parameters, 0);
  at_least("parallelism/persistence_threshold", p.persistence_threshold, 0);
}

// Checks that the model of a framework's memory (sim/framework/autocast_memory.h) covers the plan.
void check_memory_of(const Plan& plan) {
  const Training& t = plan.training;
  const Parallelism& p = plan.parallelism;
  if (t.memory_of == MemoryOf::engine) return;
  const bool mixed = t.precision == Precision::fp16 || t.precision == Precision::bf16;
  const bool adam = t.optimizer == OptimizerKind::adam || t.optimizer == OptimizerKind::adamw;
  const bool repeats = t.recompute != Recompute::none || !t.recompute_modules.empty() ||
                       t.recompute_budget.has_value();
  const std::pair<bool, std::string_view> rules[] = {
      {p.pipeline * p.tensor * p.context * p.expert * p.shard > 1 || p.zero_stage > 0,
       "data parallelism alone (zero_stage 0)"},
      {!mixed, "precision fp16 or bf16"},
      {!adam, "optimizer adamw or adam"},
      {t.master_weights != MasterWeights::fp32 || t.moments != Dtype::f32,
       "master weights and moments in fp32"},
      {t.averages(), "no ema_decay"},
      {t.packing, "no packing"},
      {t.mtp_layers > 0, "no multi-token prediction"},
      {t.attention != AttentionKernel::unfused, "attention 'unfused'"},
      {repeats || p.offload != Offload::none, "no recomputation and no offloading"}};
  for (const auto& [broken, needed] : rules)
    if (broken)
      refuse("training/memory_of",
             fmt::format("what '{}' holds is known of {}; use that, or 'engine'",
                         memory_of_names()[static_cast<std::size_t>(t.memory_of)], needed));
}

void check_loss_scale(const Training& t) {
  if (!t.loss_scale) return;
  if (t.precision != Precision::fp16)
    refuse("training/loss_scale",
           fmt::format("only fp16 is scaled, the precision is {}; leave it out",
                       name_of(t.precision)));
  const LossScale& scale = *t.loss_scale;
  if (!(scale.initial > 0))
    refuse(scale.dynamic ? "training/loss_scale/initial" : "training/loss_scale/static",
           "must be above 0");
  if (!scale.dynamic) return;
  if (!(scale.factor > 1)) refuse("training/loss_scale/factor", "must be above 1");
  if (!(scale.minimum > 0)) refuse("training/loss_scale/minimum", "must be above 0");
  at_least("training/loss_scale/window", scale.window, 1);
  at_least("training/loss_scale/hysteresis", scale.hysteresis, 1);
}

// Checks the precision of master weights and moments. An eager framework's optimizer works on whole
// fp32 arrays (exec/optimizer/eager_optimizer.h).
void check_states(const Training& t) {
  const std::string& masters = master_weights_names()[static_cast<std::size_t>(t.master_weights)];
  if (t.master_weights == MasterWeights::remainders && storage_of(t.precision) != Dtype::bf16)
    refuse("training/master_weights",
           fmt::format("remainders are what bf16 lacks of fp32, precision {} stores no bf16; use "
                       "bf16, or 'fp32'",
                       name_of(t.precision)));
  if (t.moments_at_random && t.moments != Dtype::bf16)
    refuse("training/moments_rounding",
           fmt::format(
               "'stochastic': moments in {}; use moments_precision 'bf16', or 'nearest'",
               t.moments == Dtype::f32 ? "fp32 are not rounded" : "8 bits are rounded to nearest"));
  const bool is_adam = t.optimizer == OptimizerKind::adamw || t.optimizer == OptimizerKind::adam;
  if (is_in_blocks(t.moments) && !is_adam)
    not_yet("training/moments_precision",
            fmt::format("'8bit' with optimizer '{}' (adamw and adam have it)",
                        optimizer_names()[static_cast<std::size_t>(t.optimizer)]));
  below("training/ema_decay", t.ema_decay, 0, 1);
  if (t.compiler != CompilerLevel::none) return;
  const std::string remedy = "has an optimizer in fp32 alone; use 'fp32', or fused or full";
  if (t.master_weights != MasterWeights::fp32 && storage_of(t.precision) != Dtype::f32)
    refuse("training/master_weights", fmt::format("'{}': compiler none {}", masters, remedy));
  if (t.moments == Dtype::bf16)
    refuse("training/moments_precision", "'bf16': compiler none " + remedy);
}

void check_optimizer(const Training& t) {
  at_least("training/steps", t.steps, 1);
  at_least("training/warmup_steps", t.warmup_steps, 0);
  const double huge = 1e9;
  within("training/learning_rate", t.learning_rate, 0, huge);
  within("training/weight_decay", t.weight_decay, 0, huge);
  within("training/gradient_clip", t.gradient_clip, 0, huge);
  within("training/gradient_clip_value", t.gradient_clip_value, 0, huge);
  if (t.gradient_clip > 0 && t.gradient_clip_value > 0)
    refuse("training/gradient_clip_value", "given beside gradient_clip; keep one of them");
  at_least("training/decay_steps", t.decay_steps, 0);
  if (t.decay_steps > 0 && t.learning_rate_schedule != LearningRateSchedule::warmup_stable_decay)
    refuse("training/decay_steps",
           "goes with learning_rate_schedule 'warmup_stable_decay'; leave it out, or use that");
  below("training/momentum", t.momentum, 0, 1);
  below("training/beta1", t.beta1, 0, 1);
  below("training/beta2", t.beta2, 0, 1);
  if (!(t.adafactor.eps1 > 0))
    refuse("training/adafactor/eps1", fmt::format("{} must be above 0", t.adafactor.eps1));
  if (!(t.adafactor.clip_threshold > 0))
    refuse("training/adafactor/clip_threshold",
           fmt::format("{} must be above 0", t.adafactor.clip_threshold));
  below("training/adafactor/eps2", t.adafactor.eps2, 0, huge);
  within("training/adafactor/decay_rate", t.adafactor.decay_rate, -1, 0);
  if (!(t.epsilon > 0)) refuse("training/epsilon", fmt::format("{} must be above 0", t.epsilon));
  check_states(t);
}

void check_lora(const Training& t) {
  if (!t.lora) return;
  at_least("training/lora/rank", t.lora->rank, 1);
  if (!(t.lora->alpha > 0)) refuse("training/lora/alpha", "must be above 0");
  below("training/lora/dropout", t.lora->dropout, 0, 1);
  if (t.lora->target_modules.empty())
    refuse("training/lora/target_modules", "names no module; use 'all-linear', or names of layers");
  if (t.memory_of != MemoryOf::engine)
    refuse("training/memory_of",
           "what frameworks hold is known of whole-model training; use "
           "'engine', or leave lora out");
}

void check_recompute(const Training& t) {
  within("training/recompute_fraction", t.recompute_fraction, 0, 1);
  if (t.recompute == Recompute::group) at_least("training/recompute", t.recompute_group, 1);
  if (!t.recompute_modules.empty() && t.recompute != Recompute::none)
    refuse("training/recompute_modules",
           fmt::format("given beside recompute '{}'; keep one of them", recompute_word(t)));
  if (!t.recompute_budget) return;
  constexpr std::string_view key = "training/recompute_budget";
  if (!(*t.recompute_budget > 0))
    refuse(key, fmt::format("{} is too small; use a share up to 1 of the activations kept without "
                            "recomputation, or bytes",
                            *t.recompute_budget));
  if (t.recompute != Recompute::none)
    refuse(key, fmt::format("given beside recompute '{}'; keep one of them", recompute_word(t)));
  if (!t.recompute_modules.empty()) refuse(key, "given beside recompute_modules; keep one of them");
  if (t.recompute_fraction < 1)
    refuse(key, fmt::format("given beside recompute_fraction {}; keep one of them",
                            t.recompute_fraction));
}

void check_layers_in_bf16(const Training& t, const ModelSizes& model) {
  const int first = t.first_layers_in_bf16, last = t.last_layers_in_bf16;
  at_least("training/first_layers_in_bf16", first, 0);
  at_least("training/last_layers_in_bf16", last, 0);
  if (!t.has_layers_in_bf16()) return;
  const char* key = first > 0 ? "training/first_layers_in_bf16" : "training/last_layers_in_bf16";
  if (!quantizes(t.precision))
    refuse(key, fmt::format("layers multiply 8 or 4 bits in precision fp8 and nvfp4 alone, not in "
                            "{}; leave it out, or use one of them",
                            name_of(t.precision)));
  if (std::int64_t{first} + last > model.layers)
    refuse(key, fmt::format("{} first and {} last layers are more than the model's {}", first, last,
                            model.layers));
}

void check_packing(const Training& t, const ModelSizes& model) {
  constexpr std::string_view key = "training/documents_per_row";
  if (const double documents = t.documents_per_row.value_or(1);
      !(documents >= 1 && documents <= t.sequence_length))
    refuse(key, fmt::format("{} is not in 1 to sequence_length {}", documents, t.sequence_length));
  if (!t.packing && t.documents_per_row)
    refuse(key,
           "goes with packing true, which tells documents of a row apart; leave it out, or use "
           "that");
  if (t.packing && !model.can_pack)
    refuse("training/packing",
           "packs documents of models that say the next token (head 'lm', not those read from "
           "ONNX); leave it out");
}

void check_tokens_ahead(const Training& t, const ModelSizes& model) {
  constexpr std::string_view key = "training/mtp_layers", weight = "training/mtp_loss_weight";
  if (t.mtp_layers < 0 || t.mtp_layers > most_mtp_layers)
    refuse(key, fmt::format("{} is not in 0 to {}", t.mtp_layers, most_mtp_layers));
  if (t.mtp_loss_weight && !(*t.mtp_loss_weight >= 0 && std::isfinite(*t.mtp_loss_weight)))
    refuse(weight, fmt::format("{} must be 0 or more", *t.mtp_loss_weight));
  if (t.mtp_layers == 0) {
    if (t.mtp_loss_weight)
      refuse(weight, "is of multi-token prediction; leave it out, or give mtp_layers");
    return;
  }
  if (!model.can_predict_ahead)
    refuse(key,
           "multi-token prediction is of decoders with RMSNorms and without learned positions, "
           "whose head says the next token; leave it out");
  if (t.sequence_length <= t.mtp_layers)
    refuse(key, fmt::format("the last of {} layers would predict no token of sequence_length {}; "
                            "use fewer",
                            t.mtp_layers, t.sequence_length));
  if (t.packing) not_yet(key, "multi-token prediction with training.packing");
  if (t.lora) not_yet(key, "multi-token prediction with training.lora");
}

void check_training(const Training& t, const ModelSizes& model) {
  at_least("training/sequence_length", t.sequence_length, 1);
  if (model.learned_positions && model.positions > 0 && t.sequence_length > model.positions)
    refuse("training/sequence_length",
           fmt::format("{} exceeds the model's {} learned positions; use {} or less",
                       t.sequence_length, model.positions, model.positions));
  if (model.reads_images && t.sequence_length != model.positions)
    refuse("training/sequence_length",
           fmt::format("{} is not the length of an image, a class token and {} patches; use {}",
                       t.sequence_length, model.positions - 1, model.positions));
  check_recompute(t);
  if (t.predicted_positions < 0 || t.predicted_positions > t.sequence_length)
    refuse("training/predicted_positions", fmt::format("{} is not in 1 to sequence_length {}",
                                                       t.predicted_positions, t.sequence_length));
  below("training/dropout", t.dropout, 0, 1);
  if (t.fp8_experts && !quantizes(t.precision))
    refuse("training/fp8_experts",
           fmt::format("experts multiply 8 bits in precision fp8 alone, and 4 in nvfp4, not in {}; "
                       "leave it out, or use fp8",
                       name_of(t.precision)));
  check_packing(t, model);
  check_tokens_ahead(t, model);
  check_layers_in_bf16(t, model);
  check_loss_scale(t);
  check_lora(t);
  check_optimizer(t);
}

void check_fp8_gathers(const Plan& plan) {
  const Training& t = plan.training;
  if (!t.fp8_gathers) return;
  if (t.precision != Precision::fp8)
    refuse("training/fp8_gathers",
           fmt::format("weights are rounded to 8 bits in precision fp8 alone, not in {}; leave it "
                       "out, or use fp8",
                       name_of(t.precision)));
  if (t.fp8_recipe != Fp8Recipe::tensorwise)
    refuse("training/fp8_gathers",
           fmt::format("weights that are gathered in 8 bits have one scale each, which fp8_recipe "
                       "'{}' has not; use 'tensorwise', or leave it out",
                       fp8_recipe_names()[static_cast<std::size_t>(t.fp8_recipe)]));
  if (plan.parallelism.zero_stage < 3 && plan.degrees().rdp() > 1)
    refuse(
        "training/fp8_gathers",
        fmt::format("weights are gathered for their products under zero_stage 3 alone, found {}; "
                    "use 3 (with reshard_after_forward 'never' and reduce_gradients 'last' it is "
                    "zero_stage 1 in all else), or leave it out",
                    plan.parallelism.zero_stage));
}

void check_adafactor(const Plan& plan, const ModelSizes& model) {
  if (plan.parallelism.offload == Offload::optimizer)
    not_yet("parallelism/offload",
            "'optimizer' with optimizer 'adafactor', which looks at whole matrices first,");
  if (model.experts > 0)
    not_yet("training/optimizer",
            "adafactor of a model with experts, each of which has factors of its own,");
  if (plan.training.moments != Dtype::f32)
    not_yet("training/moments_precision",
            "other than 'fp32' with optimizer 'adafactor', which keeps few,");
}

const std::string& context_exchange_word(const Parallelism& p) {
  return context_exchange_names()[static_cast<std::size_t>(p.context_exchange)];
}

// Throws NotSupportedYet for plans that are legal but that this version cannot run.
void check_supported(const Plan& plan, const ModelSizes& model) {
  const Training& t = plan.training;
  const Parallelism& p = plan.parallelism;
  const ScheduleInfo& schedule = schedule_info(p.schedule);
  if (t.lora && quantizes(t.precision))
    not_yet("training/lora", fmt::format("adapters in precision {}", name_of(t.precision)));
  if (p.offloads_activations() && schedule.splits_backwards)
    not_yet("parallelism/offload",
            fmt::format("'{}' under schedule '{}'",
                        offload_names()[static_cast<std::size_t>(p.offload)], schedule.name));
  if (p.offload == Offload::optimizer && p.shard_whole)
    not_yet("parallelism/offload", "'optimizer' with shard_layout 'whole'");
  if (p.offload == Offload::optimizer && t.optimizer == OptimizerKind::muon)
    not_yet("parallelism/offload",
            "'optimizer' with optimizer 'muon', which steps whole matrices,");
  if (t.optimizer == OptimizerKind::adafactor) check_adafactor(plan, model);
  if (t.averages() && t.router_bias_update_rate > 0)
    not_yet("training/ema_decay",
            "an average of routers' biases that router_bias_update_rate moves");
  if (p.offload == Offload::optimizer && t.router_bias_update_rate > 0)
    not_yet("parallelism/offload", "'optimizer' with training.router_bias_update_rate");
  if (t.recompute_budget && schedule.splits_backwards)
    not_yet("training/recompute_budget",
            fmt::format("a budget under schedule '{}'", schedule.name));
  if (t.fp8_experts && model.dropless)
    not_yet("training/fp8_experts", "8 bits of experts whose rows are counted (expert_dropless)");
  if (model.experts > 0 && t.optimizer == OptimizerKind::lamb)
    not_yet("training/optimizer",
            "lamb of a model with experts, each of which has a trust ratio of its own,");
  if (model.latent && p.tensor > 1 && p.tensor_layout == TensorLayout::memory)
    not_yet("parallelism/tensor_layout", "'memory' of latent attention");
  if (model.latent && !p.attends_to_whole_sequences())
    not_yet("parallelism/context_exchange",
            fmt::format("'{}' of latent attention (all_to_all is)", context_exchange_word(p)));
  if (model.experts > 0 && p.tensor > 1 && t.optimizer == OptimizerKind::muon)
    not_yet("training/optimizer", "muon of experts that a tensor group cuts");
  if (t.optimizer == OptimizerKind::muon && plan.shard_group() > 1 && !p.shard_whole)
    refuse("parallelism/shard_layout",
           "muon steps whole matrices, and 'flat' cuts them; use 'whole' with zero_stage 1, or "
           "zero_stage 0");
  if (p.expert > 1 && p.shard_whole)
    not_yet("parallelism/shard_layout", "'whole' together with expert parallelism");
}

}  // namespace

std::vector<std::int64_t> divisors_of(std::int64_t number) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t d = 1; d <= number && divisors.size() < 24; ++d)
    if (number % d == 0) divisors.push_back(d);
  return divisors;
}

void verify(const Plan& plan, const ModelSizes& model) {
  check_degrees(plan.parallelism);
  check_training(plan.training, model);
  check_fp8_gathers(plan);
  check_batch(plan);
  check_context(plan, model);
  check_tensor(plan, model);
  check_sharding(plan.parallelism);
  check_experts(plan, model);
  check_schedule(plan, model);
  check_partition(plan.parallelism);
  check_amounts(plan.parallelism);
  check_memory_of(plan);
  check_offload(plan, model);
  check_supported(plan, model);
  if (std::find(placements().begin(), placements().end(), plan.parallelism.placement) ==
      placements().end())
    refuse("parallelism/placement",
           fmt::format("unknown placement '{}'; known: {}", plan.parallelism.placement,
                       list_of(placements(), "and")));
}

}  // namespace meshwright
