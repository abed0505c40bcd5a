// accelerate can express DDP, and FSDP 2 with its ParallelismConfig. This file lists its limits.
// (ZeRO 1 and 2 belong to the target deepspeed, stages to Megatron-LM.)
#include "models/compiler/frameworks/accelerate.h"

#include "models/compiler/frameworks/huggingface.h"
#include "models/compiler/frameworks/limit_rows.h"
#include "models/compiler/frameworks/pytorch.h"

namespace meshwright::compiler {

namespace {

bool is_fsdp(const Plan& plan) { return plan.parallelism.zero_stage == 3; }

// DDP reduces gradients in fp32, as autocast keeps them. FSDP reduces them in the type that it
// computes in: 16 bits in mixed precision.
Dtype reduced_type(const Plan& plan) {
  return is_fsdp(plan) ? storage_of(plan.training.precision) : Dtype::f32;
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
    only<&Training::master_weights, MasterWeights::fp32>("training.master_weights",
                                                         "keeps weights in fp32"),
    {"training.moments_precision", "keeps moments in fp32 or, with adamw_torch_8bit, in 8 bits",
     [](const Plan& p, const Model&) { return p.training.moments != Dtype::bf16; },
     [](Plan& p, const Model&) { p.training.moments = Dtype::f32; }},
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
