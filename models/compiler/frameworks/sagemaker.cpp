// This file lists which plans a SageMaker training job can express. It runs version 2 of
// SageMaker's model parallel library if the plan has no stages, and version 1 (PyTorch 1.13 at
// most) if it has.
#include <algorithm>

#include "models/compiler/frameworks/limit_rows.h"
#include "models/compiler/frameworks/smp.h"

namespace meshwright::compiler {

namespace {

bool has_no_stages(const Plan& plan) { return plan.parallelism.pipeline == 1; }

// Returns whether version 1's FlashAttention (models/job/distribution_v1.cpp) takes the width of
// the heads.
bool has_narrow_heads(const Model& model) {
  const int width = model.head_dim > 0 ? model.head_dim : model.hidden / std::max(1, model.heads);
  return width % 8 == 0 && width < 128;
}

constexpr Limit model_rows[] = {
    {"model", "builds language models from a config.json of transformers",
     [](const Plan&, const Model& m) { return is_causal_of_scripts(m); }, nullptr},
};

constexpr Limit version_1_rows[] = {
    {"parallelism.schedule", "has gpipe ('simple') and 1f1b ('interleaved')",
     [](const Plan& p, const Model&) {
       return has_no_stages(p) || (p.parallelism.virtual_stages == 1 &&
                                   (p.parallelism.schedule == ScheduleKind::gpipe ||
                                    p.parallelism.schedule == ScheduleKind::one_f_one_b));
     },
     [](Plan& p, const Model&) {
       p.parallelism.schedule = ScheduleKind::one_f_one_b;
       p.parallelism.virtual_stages = 1;
     }},
    {"parallelism.zero_stage", "shards the optimizer's states (1) or nothing beside stages",
     [](const Plan& p, const Model&) { return has_no_stages(p) || p.parallelism.zero_stage <= 1; },
     [](Plan& p, const Model&) {
       p.parallelism.zero_stage = 1;
       p.parallelism.keeps_gathered = false;
       p.parallelism.max_live_parameters = p.parallelism.persistence_threshold = 0;
     }},
    {"parallelism.shard_layout", "gives each parameter's optimizer states one owner (whole)",
     [](const Plan& p, const Model&) {
       return has_no_stages(p) || p.parallelism.shard_whole == (p.parallelism.zero_stage == 1);
     },
     [](Plan& p, const Model&) { p.parallelism.shard_whole = p.parallelism.zero_stage == 1; }},
    only<&Parallelism::shard, 1, has_no_stages>("parallelism.shard",
                                                "shards the optimizer's states over all replicas"),
    {"parallelism.context", "has no context ranks beside stages",
     [](const Plan& p, const Model&) { return has_no_stages(p) || p.parallelism.context == 1; },
     [](Plan& p, const Model&) {
       p.parallelism.data *= p.parallelism.context;
       p.parallelism.context = 1;
       p.parallelism.context_exchange = ContextExchange::p2p;
     }},
    only<&Parallelism::expert, 1, has_no_stages>("parallelism.expert",
                                                 "has no expert ranks beside stages"),
    {"parallelism.placement", "has the orders DPT ('cluster') and TPD ('spread')",
     [](const Plan& p, const Model&) {
       return has_no_stages(p) || p.parallelism.placement == "cluster" ||
              p.parallelism.placement == "spread";
     },
     [](Plan& p, const Model&) { p.parallelism.placement = "cluster"; }},
    {"parallelism.partition", "cuts stages by itself",
     [](const Plan& p, const Model&) {
       return has_no_stages(p) || p.parallelism.partitioner == Partitioner::tree;
     },
     [](Plan& p, const Model&) {
       p.parallelism.partitioner = Partitioner::tree;
       p.parallelism.manual_stage.clear();
       p.parallelism.names_every_unit = false;
     }},
    {"parallelism.tensor_layout", "cuts tensors for `speed` or `memory`",
     [](const Plan& p, const Model&) {
       return has_no_stages(p) || p.parallelism.tensor == 1 ||
              p.parallelism.tensor_layout != TensorLayout::megatron;
     },
     [](Plan& p, const Model&) { p.parallelism.tensor_layout = TensorLayout::memory; }},
    only<&Parallelism::sequence_parallel, false, has_no_stages>(
        "parallelism.sequence_parallel", "has whole sequences beside stages"),
    {"parallelism.overlap", "has gradients beside compute, tensor communication not",
     [](const Plan& p, const Model&) {
       return has_no_stages(p) ||
              (p.parallelism.overlap_parameters && !p.parallelism.overlap_tensor);
     },
     [](Plan& p, const Model&) {
       p.parallelism.overlap_parameters = true;
       p.parallelism.overlap_tensor = false;
     }},
    only<&Parallelism::reduce_gradients, ReduceGradients::usual, has_no_stages>(
        "parallelism.reduce_gradients", "reduces gradients once a step"),
    only<&Parallelism::reduce_bucket_bytes, 0, has_no_stages>(
        "parallelism.reduce_bucket_bytes", "has such a setting with sharded data parallelism only"),
    only<&Parallelism::max_live_parameters, 0, has_no_stages>(
        "parallelism.max_live_parameters", "has such a setting with sharded data parallelism only"),
    only<&Parallelism::persistence_threshold, 0, has_no_stages>(
        "parallelism.persistence_threshold",
        "has such a setting with sharded data parallelism only"),
    only<&Parallelism::hierarchical_gather, true, has_no_stages>(
        "parallelism.hierarchical_gather", "has such a setting with sharded data parallelism only"),
    only<&Parallelism::pipeline_scatter_gather, true, has_no_stages>(
        "parallelism.pipeline_scatter_gather", "has no such setting"),
    {"parallelism.offload", "moves the activations of whole tasks",
     [](const Plan& p, const Model&) {
       return has_no_stages(p) || p.parallelism.offload == Offload::none ||
              p.parallelism.offload == Offload::activations;
     },
     [](Plan& p, const Model&) {
       p.parallelism.offload = Offload::none;
       p.parallelism.offload_horizon = 0;
     }},
    {"training.precision", "has fp16 and fp32 beside stages",
     [](const Plan& p, const Model&) {
       return has_no_stages(p) || p.training.precision == Precision::fp16 ||
              p.training.precision == Precision::fp32;
     },
     [](Plan& p, const Model&) { p.training.precision = Precision::fp16; }},
    {"training.loss_scale", "begins with a fixed scale, 1; the script may change it",
     [](const Plan& p, const Model&) {
       return has_no_stages(p) || !p.training.scales_loss() || p.training.loss_scale == LossScale{};
     },
     [](Plan& p, const Model&) { p.training.loss_scale = LossScale{}; }},
    only<&Training::gradient_reduce, Dtype::f32, has_no_stages>(
        "training.gradient_reduce_precision", "reduces gradients in fp32"),
    {"training.recompute", "recomputes blocks, alone, in groups or a whole stage",
     [](const Plan& p, const Model&) {
       return has_no_stages(p) || p.training.recompute != Recompute::selective;
     },
     [](Plan& p, const Model&) { p.training.recompute = Recompute::full; }},
    {"training.attention", "has FlashAttention for heads of a multiple of 8 below 128 wide",
     [](const Plan& p, const Model& m) {
       return has_no_stages(p) || p.training.attention == AttentionKernel::unfused ||
              (p.training.attention == AttentionKernel::flash2 && has_narrow_heads(m));
     },
     [](Plan& p, const Model& m) {
       p.training.attention =
           has_narrow_heads(m) ? AttentionKernel::flash2 : AttentionKernel::unfused;
     }},
};

constexpr Limit version_2_rows[] = {
    only<&Parallelism::keeps_gathered, false>("parallelism.reshard_after_forward",
                                              "drops gathered parameters after each forward"),
};

const std::vector<Limit>& all_rows() {
  static const std::vector<Limit> rows = [] {
    std::vector<Limit> all;
    for (const std::span<const Limit> part :
         {std::span<const Limit>(model_rows), std::span<const Limit>(version_1_rows),
          std::span<const Limit>(version_2_rows), smp_limits(), smp_training_limits()})
      all.insert(all.end(), part.begin(), part.end());
    return all;
  }();
  return rows;
}

void settle_as_sagemaker(Plan& plan, const Model& model) {
  settle_as_smp(plan, model);
  Parallelism& p = plan.parallelism;
  if (p.pipeline == 1) return;
  // "cluster" and "spread" are the library's own words for DPT and TPD.
  if (same_placement(p, p.placement, "cluster"))
    p.placement = "cluster";
  else if (same_placement(p, p.placement, "spread"))
    p.placement = "spread";
  if (p.schedule == ScheduleKind::gpipe) p.active_microbatches = 0;
  if (p.schedule == ScheduleKind::one_f_one_b && p.active_microbatches == 0)
    p.active_microbatches = p.pipeline;
  if (p.offload == Offload::none) p.offload_horizon = 0;
  if (p.offload != Offload::none && p.offload_horizon == 0) p.offload_horizon = p.horizon();
  // Unless the partition is manual, the library partitions the model itself, by its module tree.
  const bool is_ours = p.partitioner != Partitioner::manual;
  if (is_ours) p.partitioner = Partitioner::tree;
  plan.stage_of_unit.clear();
  if (plan.training.scales_loss()) plan.training.loss_scale = plan.training.settled_loss_scale();
}

}  // namespace

const FrameworkLimits sagemaker_limits = {all_rows(), settle_as_sagemaker};

}  // namespace meshwright::compiler
