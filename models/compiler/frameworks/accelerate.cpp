// This file lists which plans accelerate can express: DDP, and FSDP 2 with its ParallelismConfig.
// (For ZeRO 1 and 2 there is the target deepspeed, and for stages Megatron-LM.)
#include "models/compiler/frameworks/accelerate.h"

#include "models/compiler/frameworks/huggingface.h"
#include "models/compiler/frameworks/limit_rows.h"
#include "models/compiler/frameworks/pytorch.h"

namespace meshwright::compiler {

namespace {

bool is_fsdp(const Plan& plan) { return plan.parallelism.zero_stage == 3; }

// Returns whether weights, gradients and moments all have 16 bits, as in a model that is loaded so.
// In fp16 PyTorch's GradScaler takes no such gradients.
bool is_all_in_bf16(const Training& t) {
  return t.master_weights == MasterWeights::none && storage_of(t.precision) == Dtype::bf16;
}

// Gradients have the type of their weights. DDP reduces them in it: in fp32, as autocast keeps
// weights, or in 16 bits if the model is loaded so. FSDP reduces them in the type that it computes
// in.
Dtype reduced_type(const Plan& plan) {
  return is_fsdp(plan) || is_all_in_bf16(plan.training) ? storage_of(plan.training.precision)
                                                        : Dtype::f32;
}

// Returns whether the optimizer's states have the type of the weights, or, with adamw_torch_8bit,
// 8 bits.
bool has_states_of_trainer(const Training& t) {
  if (is_in_blocks(t.moments)) return t.master_weights != MasterWeights::remainders;
  return is_all_in_bf16(t) ? t.moments == Dtype::bf16
                           : t.master_weights == MasterWeights::fp32 && t.moments == Dtype::f32;
}

bool is_known_bucket(const Plan& plan) {
  const std::int64_t bytes = plan.parallelism.reduce_bucket_bytes;
  if (is_fsdp(plan) || replicas_of(plan) == 1) return bytes == 0;
  return bytes > 0 && bytes % mebibyte == 0;
}

constexpr Limit own[] = {
    only<&Training::fp8_gathers, false>("training.fp8_gathers", "gathers weights in 16 bits"),
    {"parallelism.tensor", "has tensor ranks beside sharded replicas only",
     [](const Plan& p, const Model&) { return p.parallelism.tensor == 1 || replicas_of(p) > 1; },
     [](Plan& p, const Model&) {
       p.parallelism.data *= p.parallelism.tensor;
       p.parallelism.tensor = 1;
     }},
    {"parallelism.zero_stage",
     "shards all (3: FSDP), or without tensor and context ranks nothing (0: DDP); `--for "
     "deepspeed` has the stages between",
     [](const Plan& p, const Model&) {
       const Parallelism& q = p.parallelism;
       return q.zero_stage == 3 || replicas_of(p) == 1 ||
              (q.zero_stage == 0 && q.tensor * q.context == 1);
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
    {"parallelism.overlap", "has gradients and parameters beside compute, tensor communication not",
     [](const Plan& p, const Model&) {
       return p.parallelism.overlap_gradients && p.parallelism.overlap_parameters &&
              !p.parallelism.overlap_tensor;
     },
     [](Plan& p, const Model&) {
       p.parallelism.overlap_gradients = p.parallelism.overlap_parameters = true;
       p.parallelism.overlap_tensor = false;
     }},
    only<&Parallelism::tensor_chunks, 1>("parallelism.tensor_chunks", "does not cut products"),
    only<&Parallelism::max_live_parameters, 0>("parallelism.max_live_parameters",
                                               "gathers one block ahead"),
    only<&Parallelism::persistence_threshold, 0>("parallelism.persistence_threshold",
                                                 "shards every parameter"),
    {"training.precision", "has fp32, tf32, fp16 and bf16 here",
     [](const Plan& p, const Model&) {
       return !quantizes(p.training.precision) && p.training.precision != Precision::fp64;
     },
     [](Plan& p, const Model&) { p.training.precision = Precision::bf16; }},
    {"training.gradient_reduce_precision",
     "reduces gradients in fp32 with DDP, in the type of the weights with FSDP",
     [](const Plan& p, const Model&) { return p.training.gradient_reduce == reduced_type(p); },
     [](Plan& p, const Model&) { p.training.gradient_reduce = reduced_type(p); }},
    {"parallelism.reduce_bucket_bytes",
     "reduces whole blocks (FSDP), or buckets of whole MiB (DDP)",
     [](const Plan& p, const Model&) { return is_known_bucket(p); },
     [](Plan& p, const Model&) {
       std::int64_t& bytes = p.parallelism.reduce_bucket_bytes;
       bytes = is_fsdp(p) || replicas_of(p) == 1
                   ? 0
                   : std::max<std::int64_t>(1, bytes / mebibyte) * mebibyte;
     }},
    {"training.master_weights",
     "keeps weights and moments in fp32, or all in bf16, gradients too, if the model is loaded so; "
     "with adamw_torch_8bit moments have 8 bits",
     [](const Plan& p, const Model&) { return has_states_of_trainer(p.training); },
     [](Plan& p, const Model&) {
       Training& t = p.training;
       if (!is_all_in_bf16(t)) t.master_weights = MasterWeights::fp32;
       if (!is_in_blocks(t.moments)) t.moments = is_all_in_bf16(t) ? Dtype::bf16 : Dtype::f32;
     }},
    {"training.loss_scale", "scales with PyTorch's GradScaler: from 65536 on, window 2000",
     [](const Plan& p, const Model&) {
       return !p.training.loss_scale || p.training.loss_scale == scale_of_grad_scaler;
     },
     [](Plan& p, const Model&) { p.training.loss_scale = scale_of_grad_scaler; }},
    {"training.optimizer",
     "has adamw (the Trainer's optim adamw_torch_fused) and, without other settings, adafactor",
     [](const Plan& p, const Model&) {
       return p.training.optimizer == OptimizerKind::adamw ||
              (p.training.optimizer == OptimizerKind::adafactor &&
               p.training.adafactor == Adafactor{});
     },
     [](Plan& p, const Model&) { p.training.optimizer = OptimizerKind::adamw; }},
};
const std::vector<Limit> rows = joined({own, trainer_limits(), pytorch_limits()});

void settle(Plan& plan, const Model& model) {
  settle_as_trainer(plan, model);
  Parallelism& p = plan.parallelism;
  if (p.reduce_gradients == ReduceGradients::usual || replicas_of(plan) == 1)
    p.reduce_gradients = ReduceGradients::last;
  if (replicas_of(plan) == 1) p.reduce_bucket_bytes = 0;
  if (replicas_of(plan) > 1 && p.zero_stage == 0 && p.reduce_bucket_bytes == 0)
    p.reduce_bucket_bytes = ddp_bucket_mebibytes * mebibyte;
  Training& t = plan.training;
  if (!t.scales_loss())
    t.loss_scale.reset();
  else if (!t.loss_scale)
    t.loss_scale = scale_of_grad_scaler;
}

}  // namespace

const FrameworkLimits accelerate_limits = {rows, settle};

}  // namespace meshwright::compiler
