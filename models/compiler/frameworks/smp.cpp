#include "models/compiler/frameworks/smp.h"

#include <algorithm>

#include "models/compiler/frameworks/limit_rows.h"
#include "models/compiler/plan/expert_tensor.h"

namespace meshwright::compiler {

namespace {

bool has_stages(const Plan& plan) { return plan.parallelism.pipeline > 1; }

bool is_16_bits(const Plan& plan) {
  return plan.training.precision == Precision::bf16 || plan.training.precision == Precision::fp8;
}

// Returns the type in which gradients are reduced. FSDP reduces them in the type that weights are
// stored in.
Dtype reduce_type(const Plan& plan) { return storage_of(plan.training.precision); }

bool has_shards_that_divide(const Plan& plan) {
  const Parallelism& p = plan.parallelism;
  return p.shard == 1 || (p.data * p.context) % (p.shard * p.expert) == 0;
}

constexpr Limit rows[] = {
    {"parallelism.zero_stage", "shards all states as FSDP does (3) or none (0)",
     [](const Plan& p, const Model&) {
       return has_stages(p) || p.parallelism.zero_stage == 0 || p.parallelism.zero_stage == 3;
     },
     [](Plan& p, const Model&) { p.parallelism.zero_stage = 3; }},
    {"parallelism.expert", "does not cut experts beside tensors",
     [](const Plan& p, const Model&) {
       return has_stages(p) || p.parallelism.expert == 1 || p.parallelism.tensor == 1;
     },
     [](Plan& p, const Model&) { p.parallelism.expert = 1; }},
    {"parallelism.shard", "needs shard x expert to divide the replicas",
     [](const Plan& p, const Model&) { return has_stages(p) || has_shards_that_divide(p); },
     [](Plan& p, const Model&) { p.parallelism.shard = 1; }},
    {"parallelism.context", "has contexts of no more ranks than states are sharded over",
     [](const Plan& p, const Model&) {
       return has_stages(p) || p.parallelism.context <= std::max(1, p.shard_group());
     },
     [](Plan& p, const Model&) {
       p.parallelism.shard = 1;
       p.parallelism.zero_stage = 3;
     }},
    {"training.micro_batch", "has one micro-batch a step: its scripts accumulate nothing",
     [](const Plan& p, const Model&) { return has_stages(p) || p.micro_batches() == 1; },
     [](Plan& p, const Model&) {
       const std::int64_t most = p.training.global_batch / std::max(1, p.parallelism.data);
       p.training.micro_batch = static_cast<int>(std::clamp<std::int64_t>(most, 1, 1'000'000'000));
     }},
    only<&Parallelism::sequence_parallel, false, has_stages>("parallelism.sequence_parallel",
                                                             "leaves that to the script's layers"),
    {"parallelism.placement", "has tensor ranks next to each other (PDT)",
     [](const Plan& p, const Model&) { return has_stages(p) || p.parallelism.placement == "PDT"; },
     [](Plan& p, const Model&) { p.parallelism.placement = "PDT"; }},
    {"parallelism.overlap", "overlaps as FSDP does: gradients and parameters",
     [](const Plan& p, const Model&) {
       return has_stages(p) || (p.parallelism.overlap_gradients &&
                                p.parallelism.overlap_parameters && !p.parallelism.overlap_tensor);
     },
     [](Plan& p, const Model&) {
       p.parallelism.overlap_gradients = p.parallelism.overlap_parameters = true;
       p.parallelism.overlap_tensor = false;
     }},
    only<&Parallelism::tensor_layout, TensorLayout::megatron, has_stages>(
        "parallelism.tensor_layout", "cuts tensors as `megatron` does"),
    only<&Parallelism::tensor_batch_own, false, has_stages>(
        "parallelism.tensor_batch", "gives all tensor ranks the same sequences"),
    only<&Parallelism::context_exchange, ContextExchange::p2p, has_stages>(
        "parallelism.context_exchange", "sends keys and values around the ring"),
    only<&Parallelism::shard_whole, false, has_stages>("parallelism.shard_layout",
                                                       "cuts sharded buffers flat"),
    {"parallelism.offload", "moves checkpointed layers only (with recompute `full`)",
     [](const Plan& p, const Model&) {
       return has_stages(p) || p.parallelism.offload == Offload::none ||
              (p.parallelism.offload == Offload::layers && p.training.recompute == Recompute::full);
     },
     [](Plan& p, const Model&) {
       p.parallelism.offload = Offload::none;
       p.parallelism.offload_horizon = 0;
     }},
    only<&Parallelism::reduce_bucket_bytes, 0, has_stages>("parallelism.reduce_bucket_bytes",
                                                           "reduces unit by unit"),
    only<&Parallelism::max_live_parameters, 0, has_stages>("parallelism.max_live_parameters",
                                                           "has no such setting"),
    only<&Parallelism::persistence_threshold, 0, has_stages>("parallelism.persistence_threshold",
                                                             "shards all parameters"),
    only<&Parallelism::hierarchical_gather, true, has_stages>("parallelism.hierarchical_gather",
                                                              "leaves that to NCCL"),
    {"training.precision", "has bf16, fp32 and fp8",
     [](const Plan& p, const Model&) {
       return has_stages(p) || is_16_bits(p) || p.training.precision == Precision::fp32;
     },
     [](Plan& p, const Model&) { p.training.precision = Precision::fp32; }},
    {"training.fp8_recipe", "has delayed scales",
     [](const Plan& p, const Model&) {
       return has_stages(p) || p.training.precision != Precision::fp8 ||
              p.training.fp8_recipe == Fp8Recipe::delayed;
     },
     [](Plan& p, const Model&) { p.training.fp8_recipe = Fp8Recipe::delayed; }},
    {"training.gradient_reduce_precision", "reduces gradients in the type of the weights",
     [](const Plan& p, const Model&) {
       return has_stages(p) || p.training.gradient_reduce == reduce_type(p);
     },
     [](Plan& p, const Model&) { p.training.gradient_reduce = reduce_type(p); }},
    {"training.recompute", "recomputes every block or none",
     [](const Plan& p, const Model&) {
       return has_stages(p) || p.training.recompute == Recompute::none ||
              p.training.recompute == Recompute::full;
     },
     [](Plan& p, const Model&) { p.training.recompute = Recompute::full; }},
    {"training.attention", "has flash (2), fused (cuDNN) and unfused attention",
     [](const Plan& p, const Model&) {
       return has_stages(p) || (p.training.attention != AttentionKernel::flash &&
                                p.training.attention != AttentionKernel::flash3);
     },
     [](Plan& p, const Model&) { p.training.attention = AttentionKernel::flash2; }},
    {"parallelism.expert_tensor", "has no tensor degree of its own for experts",
     [](const Plan& p, const Model& m) {
       const int given = p.parallelism.expert_tensor;
       return has_stages(p) || given == 0 ||
              given == default_expert_tensor(p.parallelism, m.sizes());
     },
     [](Plan& p, const Model& m) {
       p.parallelism.expert_tensor = default_expert_tensor(p.parallelism, m.sizes());
     }},
};

constexpr Limit training_rows[] = {
    only<&Parallelism::tensor_chunks, 1>("parallelism.tensor_chunks",
                                         "does not cut products of tensor ranks"),
    only<&Parallelism::overlap_expert, false>("parallelism.overlap",
                                              "has nothing beside what experts exchange"),
    only<&Training::fp8_experts, false>("training.fp8_experts", "multiplies 16 bits in experts"),
    only<&Training::fp8_gathers, false>("training.fp8_gathers", "gathers weights in 16 bits"),
    {"training.first_layers_in_bf16", "multiplies 8 bits in all blocks",
     [](const Plan& p, const Model&) { return !p.training.has_layers_in_bf16(); },
     [](Plan& p, const Model&) {
       p.training.first_layers_in_bf16 = p.training.last_layers_in_bf16 = 0;
     }},
    unset<&Training::recompute_modules>("training.recompute_modules", "recomputes whole blocks"),
    only<&Training::recompute_fraction, 1>("training.recompute_fraction",
                                           "recomputes all blocks or none"),
    {"training.recompute_budget", "has no such setting",
     [](const Plan& p, const Model&) { return !p.training.recompute_budget; },
     [](Plan& p, const Model&) {
       p.training.recompute_budget.reset();
       p.training.recompute = Recompute::full;
     }},
    only<&Training::compiler, CompilerLevel::fused>("training.compiler",
                                                    "has fused kernels for each module"),
    only<&Training::memory_of, MemoryOf::engine>("training.memory_of",
                                                 "is predicted with the engine's memory"),
    unset<&Training::passes_off>("training.passes_off", "has no such setting"),
    only<&Training::optimizer, OptimizerKind::adamw>("training.optimizer", "has adamw"),
    only<&Training::master_weights, MasterWeights::fp32>("training.master_weights",
                                                         "keeps masters in fp32"),
    only<&Training::moments, Dtype::f32>("training.moments_precision", "keeps moments in fp32"),
    only<&Training::epsilon, 1e-8>("training.epsilon", "takes AdamW's own, 1e-8"),
    only<&Training::dropout, 0>("training.dropout", "has none in its scripts"),
    only<&Training::deterministic, false>("training.deterministic", "has no such setting"),
    only<&Training::cuda_graph, false>("training.cuda_graph", "starts kernel by kernel"),
    only<&Training::fuse_gradient_accumulation, false>(
        "training.fuse_gradient_accumulation",
        "sums gradients after each product, as FSDP's parameters need"),
    only<&Training::cross_entropy_fusion, true>("training.cross_entropy_fusion",
                                                "has one kernel for the loss"),
};

void settle_training(Training& t) {
  if (!t.scales_loss()) t.loss_scale.reset();
  if (!t.cuda_graph) t.cuda_graph = false;
  if (t.recompute == Recompute::each) t.recompute = Recompute::full;
  if (t.recompute == Recompute::none) t.recompute_fraction = 1;
  if (t.recompute != Recompute::group) t.recompute_group = 1;
  if (t.precision != Precision::fp8) {
    t.fp8_recipe = Fp8Recipe::tensorwise;
    t.fp8_experts = t.fp8_gathers = false;
    t.first_layers_in_bf16 = t.last_layers_in_bf16 = 0;
  }
  t.predicted_positions = 0;
  t.momentum = 0.9;  // the default of sgd, which the library does not have
}

}  // namespace

std::span<const Limit> smp_limits() { return rows; }
std::span<const Limit> smp_training_limits() { return training_rows; }

bool is_causal_of_scripts(const Model& m) {
  if (m.head != Head::lm || !m.is_causal()) return false;
  const bool is_llama =
      m.architecture == Architecture::llama || m.architecture == Architecture::mixtral;
  if (is_llama) return m.gated_ffn && m.activation == Activation::silu && m.rms_norm;
  return !m.gated_ffn && m.activation != Activation::relu && !m.rms_norm &&
         m.architecture != Architecture::mpt && m.architecture != Architecture::bloom;
}

void settle_as_smp(Plan& plan, const Model&) {
  Parallelism& p = plan.parallelism;
  settle_training(plan.training);
  if (same_placement(p, p.placement, "PDT")) p.placement = "PDT";
  // If the plan's choice has the effect of the default, it becomes the default.
  Plan usual = plan;
  usual.parallelism.reduce_gradients = ReduceGradients::usual;
  if (usual.reduces_each_micro_batch() == plan.reduces_each_micro_batch())
    p.reduce_gradients = ReduceGradients::usual;
  if (p.tensor == 1) {
    p.overlap_tensor = p.sequence_parallel = p.tensor_batch_own = false;
    p.tensor_layout = TensorLayout::megatron;
    p.tensor_chunks = 1;
  }
  settle_context_exchange(p);
  if (p.expert == 1) p.overlap_expert = false;
  if (p.pipeline > 1) return;
  plan.training.fuse_gradient_accumulation = false;  // there is one micro-batch
  if (p.shard == p.data * p.context || p.zero_stage == 0) p.shard = 1;
  p.schedule = ScheduleKind::one_f_one_b;
  p.virtual_stages = 1;
  p.active_microbatches = 0;
  p.pipeline_scatter_gather = true;
  p.partitioner = Partitioner::chain;
  p.manual_stage.clear();
  p.names_every_unit = false;
  p.memory_weight = 0;
  plan.stage_of_unit.clear();
  if (p.offload == Offload::none) p.offload_horizon = 0;
  if (p.offload != Offload::none && p.offload_horizon == 0) p.offload_horizon = p.horizon();
  if (p.zero_stage == 0) {
    p.keeps_gathered = false;
    p.overlap_parameters = true;
  }
}

}  // namespace meshwright::compiler
