// The rules about the degrees of parallelism, what each group of ranks shares, and pipelines.
#include <cmath>
#include <numeric>

#include "models/compiler/plan/micro_batch_limit.h"
#include "models/compiler/plan/rules.h"
#include "models/compiler/plan/units_to_cut.h"
#include "models/compiler/schedule/schedule.h"
#include "models/core/error.h"

namespace meshwright::compiler {

namespace {

constexpr int largest_degree = 1'000'000;

Ruling check_batch(const Plan& plan, const ModelSizes&) {
  const int micro_batch = plan.training.micro_batch, data = plan.parallelism.data;
  const std::int64_t batch = plan.training.global_batch, once = std::int64_t{data} * micro_batch;
  Judge judge;
  judge.at_least("/training/global_batch", batch, 1)
      .at_least("/training/micro_batch", micro_batch, 1);
  if (once < 1 || batch < 1) return judge;
  if (batch % once == 0)
    return judge.refuse_if(batch / once > most_micro_batches, "/training/global_batch",
                           "{} in micro-batches of {} on data {} are {} per step; at most {}: use "
                           "a larger micro_batch or data",
                           batch, micro_batch, data, batch / once, most_micro_batches);
  // The proposed batches also satisfy the schedule's rule about the number of micro-batches.
  const bool in_groups = schedule_info(plan.parallelism.schedule).in_groups;
  const std::int64_t unit = once * (in_groups ? plan.parallelism.pipeline : 1);
  const std::int64_t lower = batch / unit * unit;
  std::vector<std::int64_t> choices = {lower, lower + unit};
  if (lower == 0) choices.erase(choices.begin());
  return wrong_choice(choices, "/training/global_batch",
                      "{} is not a multiple of data {} x micro_batch {} = {}; use ", batch, data,
                      micro_batch, once);
}

Ruling check_tensor(const Plan& plan, const ModelSizes& model) {
  if (model.captured) return {};  // the capture says which degrees divide it
  const int tensor = plan.parallelism.tensor;
  const std::pair<const char*, int> sizes[] = {{"heads", model.heads},
                                               {"kv_heads", model.kv_heads},
                                               {"hidden", model.hidden},
                                               {"embedding", model.embedding},
                                               {"ffn", model.ffn},
                                               {"shared_ffn", model.shared_ffn},
                                               {"dense_ffn", model.dense_ffn}};
  int common = 0;
  for (const auto& [name, size] : sizes) common = std::gcd(common, size);
  Judge judge;
  for (const auto& [name, size] : sizes)
    judge.choose_divisor_if(size % tensor != 0, common, "/parallelism/tensor",
                            "{} does not divide {} {}; use ", tensor, size, name);
  return judge.refuse_if(
      tensor > 1 && model.reads_images && plan.parallelism.tensor_layout == TensorLayout::memory,
      "/parallelism/tensor_layout",
      "'memory' gives each rank columns of an embedding, and patches of images have none; use "
      "'megatron' or 'speed'");
}

// Checks what a tensor group shares besides the weights of matmuls: the sequences of a batch, or
// the rows of activations.
Ruling check_tensor_shares(const Plan& plan, const ModelSizes& model) {
  if (model.captured) return {};
  const Parallelism& p = plan.parallelism;
  const int micro_batch = plan.training.micro_batch,
            length = plan.training.sequence_length / p.context;
  const std::int64_t rows = std::int64_t{micro_batch} * length;
  const bool shares_rows = p.sequence_parallel && p.tensor > 1;
  return Judge()
      .refuse_if(p.tensor_batch_own && micro_batch % p.tensor != 0, "/parallelism/tensor_batch",
                 "'own' gives each of {} tensor ranks its share of micro_batch {}, which does not "
                 "divide; use micro_batch {} or 'shared'",
                 p.tensor, micro_batch, (std::int64_t{micro_batch} / p.tensor + 1) * p.tensor)
      .refuse_if(shares_rows && p.tensor_layout == TensorLayout::memory,
                 "/parallelism/sequence_parallel",
                 "true does not go with tensor_layout 'memory', whose ranks hold columns of every "
                 "row; use false, or layout 'megatron' or 'speed'")
      .refuse_if(shares_rows && rows % p.tensor != 0, "/parallelism/sequence_parallel",
                 "tensor {} does not divide micro_batch {} x sequence_length {} = {} rows; choose "
                 "a sequence length that is a multiple of {}",
                 p.tensor, micro_batch, length, rows, p.tensor);
}

Ruling check_sharding(const Plan& plan, const ModelSizes&) {
  constexpr std::string_view indivisible = "{} does not divide data {} x context {} = {}; use ";
  const Parallelism& p = plan.parallelism;
  const std::int64_t replicas = std::int64_t{p.data} * p.context;
  const bool over_tensor = plan.degrees().experts_over_tensor;
  const std::int64_t expert_ranks = over_tensor ? replicas * p.tensor : replicas;
  return Judge()
      .within("/parallelism/zero_stage", p.zero_stage, 0, 3)
      .choose_divisor_if(replicas % p.shard != 0, replicas, "/parallelism/shard", indivisible,
                         p.shard, p.data, p.context, replicas)
      .choose_divisor_if(!over_tensor && replicas % p.expert != 0, replicas, "/parallelism/expert",
                         indivisible, p.expert, p.data, p.context, replicas)
      .choose_divisor_if(over_tensor && expert_ranks % p.expert != 0, expert_ranks,
                         "/parallelism/expert",
                         "{} does not divide tensor {} x data {} x context {} = {}; use ", p.expert,
                         p.tensor, p.data, p.context, expert_ranks)
      .refuse_if(p.shard > 1 && p.zero_stage == 0, "/parallelism/shard",
                 "{} shards nothing with zero_stage 0; use zero_stage 1, 2 or 3, or shard 1",
                 p.shard)
      .refuse_if(p.shard_whole && p.zero_stage != 1, "/parallelism/shard_layout",
                 "'whole' shares out the optimizer's states, which zero_stage 1 shards; found {}; "
                 "use zero_stage 1, or 'flat'",
                 p.zero_stage)
      .refuse_if(p.shard_whole && p.reduce_gradients == ReduceGradients::each,
                 "/parallelism/reduce_gradients",
                 "'each' does not go with shard_layout 'whole', whose owners get the sums of a "
                 "whole step; use 'last', or layout 'flat'")
      .refuse_if(p.shard_whole && p.shard > 1 && p.shard != replicas, "/parallelism/shard",
                 "{} of {} replicas do not go with shard_layout 'whole', which shares parameters "
                 "out over all of them; leave it out, or use 'flat'",
                 p.shard, replicas);
}

Ruling check_routers(const Plan& plan, const ModelSizes& model) {
  constexpr std::string_view rate = "/training/router_bias_update_rate";
  constexpr std::string_view skew = "/training/expert_skew", share = "/training/expert_imbalance";
  constexpr std::string_view needs_counted_rows =
      "goes with experts whose rows are counted; experts with slots work on all of them, full or "
      "empty; leave it out, or use a model with expert_dropless";
  const Training& t = plan.training;
  const bool moves_biases = t.router_bias_update_rate != 0, is_skewed = t.expert_skew != 0;
  const double imbalance = t.expert_imbalance.value_or(1);
  return Judge()
      .within(rate, t.router_bias_update_rate, 0, 1)
      .refuse_if(moves_biases && !model.choice_biases, rate,
                 "the model's routers have no bias that is added for the choice alone; leave it "
                 "out, or use a model after DeepSeek-V3")
      .refuse_if(moves_biases && t.lora, rate,
                 "with lora adapters alone are trained; leave it out, or lora")
      .refuse_if(moves_biases && t.master_weights == MasterWeights::none &&
                     is_16_bit(storage_of(t.precision)),
                 rate,
                 "master_weights 'none' rounds biases to 16 bits, in which such small steps are "
                 "lost; use 'fp32' or 'remainders', or leave it out")
      .refuse_if(!(imbalance >= 1), share, "{} is below 1, which is equal use", imbalance)
      .refuse_if(t.expert_imbalance && !model.dropless, share, needs_counted_rows)
      .refuse_if(!(t.expert_skew >= 0 && std::isfinite(t.expert_skew)), skew,
                 "{} must be 0 or more", t.expert_skew)
      .refuse_if(is_skewed && t.expert_imbalance, skew,
                 "expert_imbalance says it too; use one of them")
      .refuse_if(is_skewed && !model.dropless, skew, needs_counted_rows)
      .refuse_if(t.measure_expert_load && model.experts == 0, "/training/measure_expert_load",
                 "the model has no experts; leave it out");
}

Ruling check_experts(const Plan& plan, const ModelSizes& model) {
  const Parallelism& p = plan.parallelism;
  const Degrees degrees = plan.degrees();
  const bool has_experts = model.experts > 0;
  const int same_experts = degrees.expert_rdp();
  const std::int64_t rows =
      std::int64_t{plan.training.micro_batch} * (plan.training.sequence_length / p.context);
  Judge judge;
  judge
      .refuse_if(has_experts && p.tensor > 1 && p.tensor_layout != TensorLayout::megatron,
                 "/parallelism/tensor_layout", "experts are cut by layout 'megatron' alone; use it")
      .refuse_if(
          has_experts && p.context > 1 && (!model.dropless || model.balances),
          "/parallelism/context",
          "{} ranks would share each sequence, and experts take so many tokens of a whole one, or "
          "balance over it; use 1, or a model with expert_dropless and router_aux_loss_coef 0",
          p.context)
      .refuse_if(p.expert_tensor != 0 && !has_experts, "/parallelism/expert_tensor",
                 "{} needs a model with experts; leave it out", p.expert_tensor)
      .refuse_if(p.expert_tensor > 1 && p.expert_tensor != p.tensor, "/parallelism/expert_tensor",
                 "{} is neither 1 nor tensor {}; use one of them", p.expert_tensor, p.tensor)
      .refuse_if(degrees.experts_over_tensor && rows % p.tensor != 0, "/parallelism/expert_tensor",
                 "with 1, tensor {} shares out micro_batch {} x sequence_length {} = {} tokens, "
                 "which does not divide; use {}, or a sequence length that is a multiple of {}",
                 p.tensor, plan.training.micro_batch, plan.training.sequence_length / p.context,
                 rows, p.tensor, p.tensor);
  if (p.expert == 1) return judge;
  return judge
      .refuse_if(!has_experts, "/parallelism/expert",
                 "{} needs a model with experts; use 1, or family 'mixtral'", p.expert)
      .choose_divisor_if(model.experts % p.expert != 0, model.experts, "/parallelism/expert",
                         "{} does not divide {} experts; use ", p.expert, model.experts)
      .choose_divisor_if(
          same_experts % degrees.expert_shard() != 0, same_experts, "/parallelism/shard",
          "{} does not divide the {} ranks that have the same experts ({}data {} / expert {}); "
          "use ",
          p.shard, same_experts, degrees.experts_over_tensor ? "tensor x " : "", p.data, p.expert);
}

// Returns the names of the schedules that allow this many virtual stages on a stage, for a message.
std::string schedules_with(int virtual_stages) {
  std::vector<std::string> names;
  for (const ScheduleInfo& each : schedule_kinds())
    if (each.most_chunks >= virtual_stages) names.push_back("'" + std::string(each.name) + "'");
  return list_of(names, "or");
}

Ruling check_chunks(const Plan& plan, const ModelSizes& model) {
  constexpr std::string_view key = "/parallelism/virtual_stages";
  const Parallelism& p = plan.parallelism;
  const ScheduleInfo& schedule = schedule_info(p.schedule);
  if (p.virtual_stages > schedule.most_chunks)
    return broken(key, "{} needs schedule {}, found '{}'; use virtual_stages {} or that schedule",
                  p.virtual_stages, schedules_with(p.virtual_stages), schedule.name,
                  schedule.most_chunks);
  const std::int64_t chunks = std::int64_t{p.pipeline} * p.virtual_stages;
  return Judge()
      .refuse_if(p.virtual_stages < schedule.least_chunks && p.pipeline > 1, key,
                 "schedule '{}' needs {} for each stage, found {}; use virtual_stages {}",
                 schedule.name, schedule.least_chunks, p.virtual_stages, schedule.least_chunks)
      .refuse_if(p.virtual_stages > 1 && p.pipeline == 1, key,
                 "{} needs a pipeline of 2 or more stages; use virtual_stages 1", p.virtual_stages)
      .refuse_if(chunks > 1 && chunks > units_to_cut(model), "/parallelism/pipeline",
                 "{} x virtual_stages {} = {} chunks, but the model has {} layers, {} and a head; "
                 "use at most {} chunks",
                 p.pipeline, p.virtual_stages, chunks, layers_to_cut(model),
                 model.has_decoder ? "two embeddings" : "an embedding", units_to_cut(model));
}

Ruling check_schedule(const Plan& plan, const ModelSizes& model) {
  const Parallelism& p = plan.parallelism;
  const int micro_batches = plan.micro_batches(), micro_batch = plan.training.micro_batch;
  const ScheduleInfo& schedule = schedule_info(p.schedule);
  const bool gathers_units = p.zero_stage == 3, reduces_each = plan.reduces_each_micro_batch();
  const char* remedy = micro_batches > 1 ? "'last'" : "zero_stage 0 or 1";
  // In models whose blocks share parameters, every stage has copies of these, even a stage that
  // does not use them.
  const bool has_copies = (model.has_decoder || model.shares_layers) && p.pipeline > 2;
  return Judge()
      .refuse_if(has_copies && gathers_units, "/parallelism/zero_stage",
                 "3 gathers parameters unit by unit, and all {} stages have copies of parameters "
                 "that blocks of this model share; use zero_stage 0 to 2, or at most 2 stages",
                 p.pipeline)
      .refuse_if(has_copies && reduces_each, "/parallelism/reduce_gradients",
                 "zero_stage {} with {} micro-batches reduces gradients in each of them, and all "
                 "{} stages have copies of parameters that blocks of this model share, which are "
                 "reduced once a step; use {}, or at most 2 stages",
                 p.zero_stage, micro_batches, p.pipeline, remedy)
      .refuse_if(schedule.in_groups && p.pipeline > 1 && micro_batches % p.pipeline != 0,
                 "/parallelism/schedule",
                 "'{}' needs micro-batches in multiples of pipeline {}, found {} (global_batch {} "
                 "/ (data {} x micro_batch {})); use global_batch {}",
                 schedule.name, p.pipeline, micro_batches, plan.training.global_batch, p.data,
                 micro_batch,
                 (micro_batches / p.pipeline + 1) * std::int64_t{p.pipeline} * p.data * micro_batch)
      .refuse_if(schedule.splits_backwards && gathers_units, "/parallelism/zero_stage",
                 "3 gathers weights and reduces gradients unit by unit in the backward pass, half "
                 "of which schedule '{}' puts off; use zero_stage 0 to 2, or schedule '1f1b'",
                 schedule.name)
      .refuse_if(schedule.splits_backwards && reduces_each, "/parallelism/reduce_gradients",
                 "zero_stage {} with {} micro-batches reduces gradients unit by unit in the "
                 "backward pass, which schedule '{}' puts off; use {}, or schedule '1f1b'",
                 p.zero_stage, micro_batches, schedule.name, remedy)
      .at_least("/parallelism/active_microbatches", p.active_microbatches, 0)
      .refuse_if(p.active_microbatches != 0 && schedule.forwards_all &&
                     p.active_microbatches < micro_batches,
                 "/parallelism/active_microbatches",
                 "{} cannot bind '{}', which forwards all {} micro-batches first; use schedule "
                 "'1f1b' or {} or more",
                 p.active_microbatches, schedule.name, micro_batches, micro_batches);
}

Ruling check_partition(const Plan& plan, const ModelSizes&) {
  constexpr std::string_view key = "/parallelism/partition";
  const Parallelism& p = plan.parallelism;
  const int last = p.pipeline * p.virtual_stages - 1;
  Judge judge;
  judge.within("/parallelism/memory_weight", p.memory_weight, 0, 1);
  for (const auto& [path, stage] : p.manual_stage)
    judge.refuse_if(stage < 0 || stage > last, key,
                    "'{}' is put on stage {}, but stages are 0 to {}", path, stage, last);
  return judge.refuse_if(p.partitioner == Partitioner::manual && p.manual_stage.empty(), key,
                         "no module is given a stage; name some, or use 'auto'");
}

}  // namespace

Ruling broken_degree_rule(const Plan& plan, const ModelSizes&) {
  const Parallelism& p = plan.parallelism;
  const std::pair<std::string_view, int> degrees[] = {
      {"/parallelism/pipeline", p.pipeline},
      {"/parallelism/tensor", p.tensor},
      {"/parallelism/data", p.data},
      {"/parallelism/shard", p.shard},
      {"/parallelism/context", p.context},
      {"/parallelism/expert", p.expert},
      {"/parallelism/virtual_stages", p.virtual_stages}};
  Judge judge;
  for (const auto& [key, degree] : degrees)
    judge.at_least(key, degree, 1)
        .refuse_if(degree > largest_degree, key, "{} is too large; use {} or less", degree,
                   largest_degree);
  return judge;
}

Ruling broken_parallelism_rule(const Plan& plan, const ModelSizes& model) {
  return first_broken(
      {check_batch, broken_context_rule, check_tensor, check_tensor_shares, check_sharding,
       check_routers, check_experts, check_chunks, check_schedule, check_partition},
      plan, model);
}

}  // namespace meshwright::compiler
