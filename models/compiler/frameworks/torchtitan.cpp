// This file lists which plans torchtitan can express.
#include <cmath>

#include "models/compiler/frameworks/limit_rows.h"
#include "models/compiler/frameworks/pytorch.h"
#include "models/compiler/frameworks/torchtitan.h"

namespace meshwright::compiler {

namespace {

bool is_llama_of_torchtitan(const Model& m) {
  return m.architecture == Architecture::llama && m.head == Head::lm && !m.biases &&
         !m.attention_bias && !m.tied_embeddings && m.gated_ffn &&
         m.activation == Activation::silu && m.head_dim * m.heads == m.hidden &&
         m.rotary_dim == m.head_dim;
}

// Returns when gradients are reduced. FSDP gathers and reduces unit by unit in every micro-batch,
// but pipeline schedules reduce after the last micro-batch. One replica reduces nothing, which
// counts as once a step.
ReduceGradients reduction_of(const Plan& plan) {
  const Parallelism& p = plan.parallelism;
  return replicas_of(plan) == 1 || p.pipeline > 1 ? ReduceGradients::last : ReduceGradients::each;
}

// Returns whether the fraction is 1 / k for a whole number k, so that every k-th block is
// recomputed.
bool is_every_kth(double fraction) {
  return fraction > 0 && fraction == 1.0 / std::round(1.0 / fraction);
}

// Returns whether training runs in mixed precision. FSDP brings it, or autocast if only the batch
// is split (DDP, or a single rank). Under tensor or pipeline parallelism without replicas, there is
// none.
bool mixes_precision(const Plan& plan) {
  const Parallelism& p = plan.parallelism;
  return replicas_of(plan) > 1 || p.tensor * p.pipeline == 1;
}

bool keeps_known_states(const Plan& plan) {
  const Training& t = plan.training;
  if (storage_of(t.precision) == Dtype::f32) return t.moments == Dtype::f32;
  if (t.master_weights == MasterWeights::none) return t.moments == Dtype::bf16;
  return t.master_weights == MasterWeights::fp32 && t.moments == Dtype::f32 &&
         mixes_precision(plan);
}

void keep_known_states(Plan& plan) {
  Training& t = plan.training;
  const bool pure = storage_of(t.precision) != Dtype::f32 &&
                    (t.master_weights == MasterWeights::none || !mixes_precision(plan));
  t.master_weights = pure ? MasterWeights::none : MasterWeights::fp32;
  t.moments = pure ? Dtype::bf16 : Dtype::f32;
}

constexpr Limit own[] = {
    {"parallelism.partition", "has the embedding, a layer or the head on every stage",
     [](const Plan& p, const Model&) { return p.stage_of_unit.empty(); },
     [](Plan& p, const Model&) {
       p.stage_of_unit.clear();
       p.parallelism.manual_stage.clear();
       p.parallelism.partitioner = Partitioner::even;
     }},
    {"model", "has Llama models without biases and with a head of its own",
     [](const Plan&, const Model& m) { return is_llama_of_torchtitan(m); }, nullptr},
    {"parallelism.schedule",
     "has 1F1B, GPipe, Interleaved1F1B and, where nothing is sharded, InterleavedZeroBubble, "
     "ZBVZeroBubble and, from 2 micro-batches for each stage on, DualPipeV",
     [](const Plan& p, const Model&) {
       const ScheduleKind schedule = p.parallelism.schedule;
       const bool splits = schedule == ScheduleKind::interleaved_zero_bubble ||
                           schedule == ScheduleKind::zero_bubble_v ||
                           (schedule == ScheduleKind::dualpipe_v &&
                            p.micro_batches() >= 2 * p.parallelism.pipeline);
       return schedule == ScheduleKind::one_f_one_b || schedule == ScheduleKind::gpipe ||
              schedule == ScheduleKind::interleaved || (splits && replicas_of(p) == 1);
     },
     [](Plan& p, const Model&) {
       p.parallelism.schedule = ScheduleKind::one_f_one_b;
       p.parallelism.virtual_stages = 1;
     }},
    {"parallelism.zero_stage",
     "shards parameters, gradients and states (3) of all replicas; without stages, tensor and "
     "context ranks it may shard nothing (0)",
     [](const Plan& p, const Model&) {
       const Parallelism& q = p.parallelism;
       return q.zero_stage == 3 || replicas_of(p) == 1 ||
              (q.zero_stage == 0 && q.tensor * q.pipeline * q.context == 1);
     },
     [](Plan& p, const Model&) {
       p.parallelism.keeps_gathered = p.parallelism.zero_stage == 2;
       p.parallelism.zero_stage = 3;
     }},
    {"parallelism.context_exchange", "exchanges keys and values (allgather, alltoall)",
     [](const Plan& p, const Model&) { return !p.parallelism.exchanges_heads(); },
     [](Plan& p, const Model&) { p.parallelism.context_exchange = ContextExchange::all_gather; }},
    {"parallelism.shard", "shards over whole groups of context ranks",
     [](const Plan& p, const Model&) {
       return p.parallelism.shard == 1 || p.parallelism.shard % p.parallelism.context == 0;
     },
     [](Plan& p, const Model&) { p.parallelism.shard = 1; }},
    {"parallelism.reduce_gradients",
     "reduces gradients in every micro-batch without stages, once a step with them",
     [](const Plan& p, const Model&) { return p.parallelism.reduce_gradients == reduction_of(p); },
     [](Plan& p, const Model&) { p.parallelism.reduce_gradients = reduction_of(p); }},
    {"parallelism.reduce_bucket_bytes", "reduces whole blocks (FSDP), or buckets of 100 MiB (DDP)",
     [](const Plan& p, const Model&) {
       return p.parallelism.reduce_bucket_bytes ==
              (is_ddp(p.parallelism) ? torchtitan_ddp_bucket_bytes : 0);
     },
     [](Plan& p, const Model&) {
       p.parallelism.reduce_bucket_bytes = is_ddp(p.parallelism) ? torchtitan_ddp_bucket_bytes : 0;
     }},
    only<&Parallelism::max_live_parameters, 0>("parallelism.max_live_parameters",
                                               "gathers one block ahead"),
    only<&Parallelism::persistence_threshold, 0>("parallelism.persistence_threshold",
                                                 "shards every parameter"),
    {"parallelism.sequence_parallel", "always cuts sequences between tensor ranks' products",
     [](const Plan& p, const Model&) {
       return p.parallelism.sequence_parallel == (p.parallelism.tensor > 1);
     },
     [](Plan& p, const Model&) { p.parallelism.sequence_parallel = p.parallelism.tensor > 1; }},
    {"parallelism.overlap",
     "has gradients and parameters beside compute always, and tensor communication where "
     "torch.compile cuts products (enable_async_tensor_parallel)",
     [](const Plan& p, const Model&) {
       const Parallelism& q = p.parallelism;
       return q.overlap_gradients && q.overlap_parameters &&
              (!q.overlap_tensor || p.training.compiler == CompilerLevel::full);
     },
     [](Plan& p, const Model&) {
       Parallelism& q = p.parallelism;
       q.overlap_gradients = q.overlap_parameters = true;
       q.overlap_tensor = q.overlap_tensor && p.training.compiler == CompilerLevel::full;
       if (!q.overlap_tensor) q.tensor_chunks = 1;
     }},
    {"parallelism.tensor_chunks",
     "cuts products into as many chunks as tensor ranks, or not at all",
     [](const Plan& p, const Model&) {
       const Parallelism& q = p.parallelism;
       return q.tensor_chunks == (q.overlap_tensor ? q.tensor : 1);
     },
     [](Plan& p, const Model&) {
       Parallelism& q = p.parallelism;
       q.tensor_chunks = q.overlap_tensor ? q.tensor : 1;
     }},
    {"parallelism.placement", "has one order of ranks: PDT",
     [](const Plan& p, const Model&) { return p.parallelism.placement == "PDT"; },
     [](Plan& p, const Model&) { p.parallelism.placement = "PDT"; }},
    {"training.precision", "has fp32, bf16 and fp8",
     [](const Plan& p, const Model&) {
       const Precision precision = p.training.precision;
       return precision == Precision::fp32 || precision == Precision::bf16 ||
              precision == Precision::fp8;
     },
     [](Plan& p, const Model&) {
       p.training.precision = Precision::bf16;
       p.training.loss_scale.reset();
     }},
    {"training.fp8_recipe", "has one scale for a tensor (tensorwise), and mxfp8",
     [](const Plan& p, const Model&) {
       return p.training.fp8_recipe == Fp8Recipe::tensorwise ||
              p.training.fp8_recipe == Fp8Recipe::mxfp8;
     },
     [](Plan& p, const Model&) {
       p.training.fp8_recipe =
           p.training.fp8_recipe == Fp8Recipe::blockwise ? Fp8Recipe::mxfp8 : Fp8Recipe::tensorwise;
     }},
    only<&Training::gradient_reduce, Dtype::f32>("training.gradient_reduce_precision",
                                                 "reduces gradients in fp32 only"),
    {"training.master_weights",
     "keeps weights and moments in fp32, or all in bf16 (training.dtype), and mixes precisions "
     "with several replicas or on one rank only",
     [](const Plan& p, const Model&) { return keeps_known_states(p); },
     [](Plan& p, const Model&) { keep_known_states(p); }},
    {"training.optimizer", "has adamw and adam",
     [](const Plan& p, const Model&) {
       return p.training.optimizer == OptimizerKind::adamw ||
              p.training.optimizer == OptimizerKind::adam;
     },
     [](Plan& p, const Model&) { p.training.optimizer = OptimizerKind::adamw; }},
    only<&Training::dropout, 0>("training.dropout", "has models without dropout"),
    {"training.recompute_budget", "has a share of the activations, and with torch.compile only",
     [](const Plan& p, const Model&) {
       const std::optional<double>& budget = p.training.recompute_budget;
       return !budget || (*budget <= 1 && p.training.compiler == CompilerLevel::full);
     },
     [](Plan& p, const Model&) {
       p.training.recompute_budget.reset();
       p.training.recompute = Recompute::full;
     }},
    {"training.recompute_fraction",
     "recomputes every block, or every second, third ... one in full",
     [](const Plan& p, const Model&) {
       const Training& t = p.training;
       return t.recompute_fraction == 1 ||
              (t.recompute == Recompute::full && is_every_kth(t.recompute_fraction));
     },
     [](Plan& p, const Model&) {
       Training& t = p.training;
       const double every = t.recompute_fraction > 0 ? std::round(1.0 / t.recompute_fraction) : 1;
       t.recompute_fraction = t.recompute == Recompute::full ? 1.0 / every : 1;
     }},
    {"training.attention", "takes PyTorch's fused attention, in fp32 the unfused one",
     [](const Plan& p, const Model&) {
       const AttentionKernel kernel = p.training.attention;
       if (p.training.precision == Precision::fp32) return kernel == AttentionKernel::unfused;
       return kernel == AttentionKernel::flash2 || kernel == AttentionKernel::cudnn;
     },
     [](Plan& p, const Model&) {
       p.training.attention = p.training.precision == Precision::fp32 ? AttentionKernel::unfused
                                                                      : AttentionKernel::flash2;
     }},
};
const std::vector<Limit> rows = joined({own, pytorch_limits()});

void settle(Plan& plan, const Model& model) {
  settle_as_pytorch(plan, model);
  Parallelism& p = plan.parallelism;
  p.sequence_parallel = p.tensor > 1;
  p.pipeline_scatter_gather = true;
  if (p.reduce_gradients == ReduceGradients::usual || replicas_of(plan) == 1)
    p.reduce_gradients = reduction_of(plan);
  if (replicas_of(plan) == 1) {
    p.reduce_bucket_bytes = 0;
    p.overlap_gradients = p.overlap_parameters = true;
  }
  if (is_ddp(p) && p.reduce_bucket_bytes == 0) p.reduce_bucket_bytes = torchtitan_ddp_bucket_bytes;
}

}  // namespace

const FrameworkLimits torchtitan_limits = {rows, settle};

}  // namespace meshwright::compiler
