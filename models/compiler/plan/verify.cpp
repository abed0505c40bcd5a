// Checks all rules about a plan. This file itself has those about memory, offloading, placement and
// combinations that are not supported yet.
#include <algorithm>

#include "models/compiler/plan/rules.h"
#include "models/compiler/schedule/schedule.h"
#include "models/core/error.h"

namespace meshwright::compiler {

namespace {

// Checks that the model of a framework's memory (sim/framework/autocast_memory.h) covers the plan.
Ruling check_memory_of(const Plan& plan, const ModelSizes&) {
  const Training& t = plan.training;
  const Parallelism& p = plan.parallelism;
  if (t.memory_of == MemoryOf::engine) return {};
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
  Judge judge;
  for (const auto& [is_broken, needed] : rules)
    judge.refuse_if(is_broken, "/training/memory_of",
                    "what '{}' holds is known of {}; use that, or 'engine'",
                    memory_of_names()[static_cast<std::size_t>(t.memory_of)], needed);
  return judge;
}

Ruling check_amounts(const Plan& plan, const ModelSizes&) {
  const Parallelism& p = plan.parallelism;
  return Judge()
      .at_least("/parallelism/reduce_bucket_bytes", p.reduce_bucket_bytes, 0)
      .at_least("/parallelism/max_live_parameters", p.max_live_parameters, 0)
      .at_least("/parallelism/persistence_threshold", p.persistence_threshold, 0);
}

Ruling check_offload(const Plan& plan, const ModelSizes& model) {
  constexpr std::string_view key = "/parallelism/offload";
  const Training& t = plan.training;
  const Parallelism& p = plan.parallelism;
  const bool is_by_layer = p.offload == Offload::layers;
  const bool saves_parts = t.recompute == Recompute::selective || !t.recompute_modules.empty();
  return Judge()
      .refuse_if(is_by_layer && model.has_decoder, key,
                 "'layers' leaves a block's input on the device while that block works, and all "
                 "blocks of the decoder read what the encoder made; use 'activations'")
      .at_least("/parallelism/offload_horizon", p.offload_horizon, 0)
      .refuse_if(is_by_layer && saves_parts, key,
                 "'layers' moves the inputs of whole blocks; use 'activations', or recompute full, "
                 "contiguous or group_N")
      .refuse_if(p.offloads_activations() && t.recompute_budget, key,
                 "'{}' moves what training.recompute_budget counts as kept; keep one of them",
                 offload_names()[static_cast<std::size_t>(p.offload)]);
}

// Refuses plans that this version cannot run. Most of them are legal, and are reported as not
// supported yet.
Ruling check_supported(const Plan& plan, const ModelSizes& model) {
  const Training& t = plan.training;
  const Parallelism& p = plan.parallelism;
  const ScheduleInfo& schedule = schedule_info(p.schedule);
  const bool has_experts = model.experts > 0, moves_biases = t.router_bias_update_rate > 0;
  const bool cuts_tensors = p.tensor > 1, moves_states = p.offload == Offload::optimizer;
  const bool adafactor = t.optimizer == OptimizerKind::adafactor;
  const bool muon = t.optimizer == OptimizerKind::muon;
  return Judge()
      .not_yet_if(t.lora && quantizes(t.precision), "/training/lora", "adapters in precision {}",
                  name_of(t.precision))
      .not_yet_if(p.offloads_activations() && schedule.splits_backwards, "/parallelism/offload",
                  "'{}' under schedule '{}'", offload_names()[static_cast<std::size_t>(p.offload)],
                  schedule.name)
      .not_yet_if(moves_states && p.shard_whole, "/parallelism/offload",
                  "'optimizer' with shard_layout 'whole'")
      .not_yet_if(moves_states && muon, "/parallelism/offload",
                  "'optimizer' with optimizer 'muon', which steps whole matrices,")
      .not_yet_if(moves_states && adafactor, "/parallelism/offload",
                  "'optimizer' with optimizer 'adafactor', which looks at whole matrices first,")
      .not_yet_if(has_experts && adafactor, "/training/optimizer",
                  "adafactor of a model with experts, each of which has factors of its own,")
      .not_yet_if(adafactor && t.moments != Dtype::f32, "/training/moments_precision",
                  "other than 'fp32' with optimizer 'adafactor', which keeps few,")
      .not_yet_if(t.averages() && moves_biases, "/training/ema_decay",
                  "an average of routers' biases that router_bias_update_rate moves")
      .not_yet_if(moves_states && moves_biases, "/parallelism/offload",
                  "'optimizer' with training.router_bias_update_rate")
      .not_yet_if(t.recompute_budget && schedule.splits_backwards, "/training/recompute_budget",
                  "a budget under schedule '{}'", schedule.name)
      .not_yet_if(t.fp8_experts && model.dropless, "/training/fp8_experts",
                  "8 bits of experts whose rows are counted (expert_dropless, unless "
                  "model.expert_capacity_factor is given)")
      .not_yet_if(has_experts && t.optimizer == OptimizerKind::lamb, "/training/optimizer",
                  "lamb of a model with experts, each of which has a trust ratio of its own,")
      .not_yet_if(model.latent && cuts_tensors && p.tensor_layout == TensorLayout::memory,
                  "/parallelism/tensor_layout", "'memory' of latent attention")
      .not_yet_if(model.bare_norms && cuts_tensors && p.tensor_layout == TensorLayout::memory,
                  "/parallelism/tensor_layout", "'memory' of norms without weights")
      .not_yet_if(model.latent && !p.attends_to_whole_sequences(), "/parallelism/context_exchange",
                  "'{}' of latent attention (all_to_all is)",
                  context_exchange_names()[static_cast<std::size_t>(p.context_exchange)])
      .not_yet_if(has_experts && cuts_tensors && !plan.degrees().experts_over_tensor && muon,
                  "/training/optimizer", "muon of experts that a tensor group cuts")
      .refuse_if(muon && plan.shard_group() > 1 && !p.shard_whole, "/parallelism/shard_layout",
                 "muon steps whole matrices, and 'flat' cuts them; use 'whole' with zero_stage 1, "
                 "or zero_stage 0")
      .not_yet_if(plan.degrees().has_expert_groups() && p.shard_whole, "/parallelism/shard_layout",
                  "'whole' together with expert parallelism");
}

Ruling check_placement(const Plan& plan, const ModelSizes&) {
  const std::string& given = plan.parallelism.placement;
  if (std::ranges::count(placements(), given) > 0) return {};
  return broken("/parallelism/placement", "unknown placement '{}'; known: {}", given,
                list_of(placements(), "and"));
}

}  // namespace

Ruling first_broken(std::initializer_list<PlanRule> rules, const Plan& plan,
                    const ModelSizes& model) {
  for (const PlanRule rule : rules)
    if (Ruling ruling = rule(plan, model)) return ruling;
  return {};
}

std::vector<std::int64_t> divisors_of(std::int64_t number) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t d = 1; d <= number && divisors.size() < 24; ++d)
    if (number % d == 0) divisors.push_back(d);
  return divisors;
}

Ruling broken_rule(const Plan& plan, const ModelSizes& model) {
  return first_broken(
      {broken_degree_rule, broken_captured_rule, broken_training_rule, broken_parallelism_rule,
       check_amounts, check_memory_of, check_offload, check_supported, check_placement},
      plan, model);
}

void verify(const Plan& plan, const ModelSizes& model) {
  if (Ruling ruling = broken_rule(plan, model)) throw InputError(std::move(*ruling));
}

}  // namespace meshwright::compiler
