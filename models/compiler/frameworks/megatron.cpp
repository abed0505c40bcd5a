// This file lists which plans Megatron-LM can express. Frameworks that are built on it share most
// of these limits.
#include <algorithm>

#include "models/compiler/frameworks/framework.h"
#include "models/compiler/frameworks/limit_rows.h"
#include "models/compiler/frameworks/megatron.h"
#include "models/compiler/frameworks/stages.h"

namespace meshwright::compiler {

namespace {

constexpr const char* no_memory_keys = "has no such setting";

bool is_dense_first(const Plan& plan) { return plan.parallelism.zero_stage <= 1; }

std::int64_t gradient_bytes(const Plan& plan) { return bytes_of(plan.training.gradient_reduce); }

// Returns whether Megatron-LM can scale rotary positions as the model does: not at all, or by YaRN.
// It has no arguments for some of YaRN's values, so these must be those of megatron.core's
// MLATransformerConfig.
bool has_scores_of_megatron(const Model& m) {
  constexpr double original = 4096, low = 1, high = 32;
  return m.rotary_yarn ? m.rotary_original == original && m.rotary_low == low &&
                             m.rotary_high == high && m.rotary_truncate
                       : m.rotary_factor == 1;
}

// Returns whether the blocks are as in megatron.core: pre-norm and one branch after the other.
// tools/interop/megatron/model_rule.cpp must know the arguments for them.
bool has_blocks_of_megatron(const Model& m) {
  if (m.head != Head::lm || m.parallel_residual || m.alibi || m.local_window > 0 ||
      m.embedding_width() != m.hidden || m.attention_bias != m.biases)
    return false;
  switch (m.architecture) {
    case Architecture::gpt2:
      return !m.gated_ffn && !m.rms_norm && m.learned_positions && m.biases &&
             m.activation == Activation::gelu_tanh;
    case Architecture::gpt_neox:
      return !m.gated_ffn && !m.rms_norm && m.biases && m.kv_heads == m.heads &&
             m.activation == Activation::gelu && !m.rotary_interleaved;
    case Architecture::llama:
    case Architecture::mixtral:
    case Architecture::qwen3:
    case Architecture::qwen3_moe:
      return m.gated_ffn && m.rms_norm && m.rotary_dim == m.head_dim && !m.rotary_interleaved;
    case Architecture::deepseek_v2:  // its rotary pairs are neighbours in both
    case Architecture::deepseek_v3:
      return m.experts > 0 && has_scores_of_megatron(m);
    default:
      return false;
  }
}

// Returns whether Megatron's experts multiply 8 or 4 bits, as all its linear layers do. Dropless
// experts are not supported with these precisions yet.
bool multiplies_8_bits_in_experts(const Plan& plan, const Model& m) {
  return quantizes(plan.training.precision) && m.experts > 0 && !m.expert_dropless;
}

// Returns the most blocks that may stay in bf16, at the beginning and at the end of the model each.
int most_in_bf16(const Plan& plan, const Model& model) {
  if (plan.training.precision == Precision::nvfp4) return model.layers;
  const bool delayed = plan.training.fp8_recipe == Fp8Recipe::delayed;
  return plan.training.precision != Precision::fp8 || delayed
             ? 0
             : model.layers / plan.parallelism.pipeline;
}

constexpr Limit rows[] = {
    {"model",
     "has the blocks of GPT-2 with the tanh form of GELU, GPT-NeoX's with the erf form and one "
     "branch after the other, and those of Llama, Mixtral, Qwen3 and DeepSeek",
     [](const Plan&, const Model& m) { return has_blocks_of_megatron(m); }, nullptr},
    {"parallelism.schedule", "has 1f1b and interleaved",
     [](const Plan& p, const Model&) {
       return p.parallelism.schedule == ScheduleKind::one_f_one_b ||
              p.parallelism.schedule == ScheduleKind::interleaved;
     },
     [](Plan& p, const Model&) {
       p.parallelism.schedule = ScheduleKind::one_f_one_b;
       p.parallelism.virtual_stages = 1;
     }},
    {"parallelism.partition", "has the embedding, a layer or the head on every stage",
     [](const Plan& p, const Model&) { return p.stage_of_unit.empty(); },
     [](Plan& p, const Model&) {
       p.stage_of_unit.clear();
       p.parallelism.manual_stage.clear();
       p.parallelism.partitioner = Partitioner::even;
     }},
    {"parallelism.zero_stage",
     "shards gradients and parameters (Megatron-FSDP) without stages only",
     [](const Plan& p, const Model&) { return is_dense_first(p) || p.parallelism.pipeline == 1; },
     [](Plan& p, const Model&) {
       p.parallelism.zero_stage = 1;
       p.parallelism.keeps_gathered = false;
       p.parallelism.reduce_gradients = ReduceGradients::last;
     }},
    only<&Parallelism::shard, 1, is_dense_first>(
        "parallelism.shard",
        "has copies of sharded states with the distributed optimizer (ZeRO 1) only"),
    {"parallelism.reduce_gradients",
     "reduces gradients once a step, with Megatron-FSDP in every micro-batch",
     [](const Plan& p, const Model&) {
       return p.parallelism.reduce_gradients ==
              (is_dense_first(p) ? ReduceGradients::last : ReduceGradients::each);
     },
     [](Plan& p, const Model&) {
       p.parallelism.reduce_gradients =
           is_dense_first(p) ? ReduceGradients::last : ReduceGradients::each;
     }},
    only<&Parallelism::keeps_gathered, false>("parallelism.reshard_after_forward",
                                              "drops gathered parameters after each forward"),
    {"parallelism.placement", "has the orders PDT and DPT (--use-tp-pp-dp-mapping)",
     [](const Plan& p, const Model&) {
       return p.parallelism.placement == "PDT" || p.parallelism.placement == "DPT";
     },
     [](Plan& p, const Model&) { p.parallelism.placement = "PDT"; }},
    {"parallelism.overlap", "always has tensor communication beside weight gradients",
     [](const Plan& p, const Model&) {
       return p.parallelism.overlap_tensor == (p.parallelism.tensor > 1);
     },
     [](Plan& p, const Model&) { p.parallelism.overlap_tensor = p.parallelism.tensor > 1; }},
    {"parallelism.overlap", "gathers parameters beside compute only where it reduces gradients so",
     [](const Plan& p, const Model&) {
       return p.parallelism.overlap_gradients || !p.parallelism.overlap_parameters;
     },
     [](Plan& p, const Model&) { p.parallelism.overlap_parameters = false; }},
    {"parallelism.tensor_chunks",
     "cuts products into as many chunks as tensor ranks (--tp-comm-overlap), with "
     "sequence_parallel, or not at all",
     [](const Plan& p, const Model&) {
       return p.parallelism.tensor_chunks == 1 ||
              (p.parallelism.tensor_chunks == p.parallelism.tensor &&
               p.parallelism.sequence_parallel);
     },
     [](Plan& p, const Model&) { p.parallelism.tensor_chunks = 1; }},
    {"parallelism.pipeline_scatter_gather",
     "sends parts of activations with sequence_parallel only",
     [](const Plan& p, const Model&) {
       return p.parallelism.pipeline_scatter_gather ==
              (p.parallelism.tensor == 1 || p.parallelism.sequence_parallel);
     },
     [](Plan& p, const Model&) {
       p.parallelism.pipeline_scatter_gather =
           p.parallelism.tensor == 1 || p.parallelism.sequence_parallel;
     }},
    only<&Parallelism::active_microbatches, 0>("parallelism.active_microbatches", no_memory_keys),
    only<&Parallelism::tensor_layout, TensorLayout::megatron>("parallelism.tensor_layout",
                                                              "cuts tensors as `megatron` does"),
    only<&Parallelism::tensor_batch_own, false>("parallelism.tensor_batch",
                                                "gives all tensor ranks the same sequences"),
    {"parallelism.offload",
     "has no argument that moves checkpointed activations, or states that the device steps, to "
     "the host",
     [](const Plan& p, const Model&) {
       return p.parallelism.offload == Offload::none && p.parallelism.offload_horizon == 0;
     },
     [](Plan& p, const Model&) {
       p.parallelism.offload = Offload::none;
       p.parallelism.offload_horizon = 0;
     }},
    only<&Parallelism::shard_whole, false>("parallelism.shard_layout", "cuts sharded buffers flat"),
    {"parallelism.reduce_bucket_bytes",
     "counts buckets in elements, and has whole units with Megatron-FSDP",
     [](const Plan& p, const Model&) {
       const std::int64_t bytes = p.parallelism.reduce_bucket_bytes;
       return is_dense_first(p) ? bytes > 0 && bytes % gradient_bytes(p) == 0 : bytes == 0;
     },
     [](Plan& p, const Model&) {
       std::int64_t& bytes = p.parallelism.reduce_bucket_bytes;
       bytes = is_dense_first(p)
                   ? std::max<std::int64_t>(1, bytes / gradient_bytes(p)) * gradient_bytes(p)
                   : 0;
     }},
    only<&Parallelism::max_live_parameters, 0>("parallelism.max_live_parameters", no_memory_keys),
    only<&Parallelism::persistence_threshold, 0>("parallelism.persistence_threshold",
                                                 no_memory_keys),
    only<&Parallelism::hierarchical_gather, true>("parallelism.hierarchical_gather",
                                                  "leaves that to NCCL"),
    {"training.precision", "has no tf32 of its own: fp32, fp16, bf16, fp8 and nvfp4",
     [](const Plan& p, const Model&) { return p.training.precision != Precision::tf32; },
     [](Plan& p, const Model&) { p.training.precision = Precision::bf16; }},
    {"training.fp8_experts", "multiplies 8 or 4 bits in experts too",
     [](const Plan& p, const Model& m) {
       return p.training.fp8_experts == multiplies_8_bits_in_experts(p, m);
     },
     [](Plan& p, const Model& m) { p.training.fp8_experts = multiplies_8_bits_in_experts(p, m); }},
    only<&Training::fp8_gathers, false>("training.fp8_gathers",
                                        "gathers weights in 8 bits under zero_stage 1 alone"),
    {"training.first_layers_in_bf16",
     "leaves layers in bf16 under other scales than delayed ones, in fp8 at most as many on either "
     "side as a stage has",
     [](const Plan& p, const Model& m) {
       const Training& t = p.training;
       return std::max(t.first_layers_in_bf16, t.last_layers_in_bf16) <= most_in_bf16(p, m);
     },
     [](Plan& p, const Model& m) {
       for (int* layers : {&p.training.first_layers_in_bf16, &p.training.last_layers_in_bf16})
         *layers = std::min(*layers, most_in_bf16(p, m));
     }},
    {"training.gradient_reduce_precision", "reduces in fp32 or in the type of the weights",
     [](const Plan& p, const Model&) {
       return p.training.gradient_reduce == Dtype::f32 ||
              p.training.gradient_reduce == storage_of(p.training.precision);
     },
     [](Plan& p, const Model&) { p.training.gradient_reduce = Dtype::f32; }},
    only<&Training::recompute_fraction, 1>(
        "training.recompute_fraction",
        "recomputes the first blocks of each stage, not evenly spread ones"),
    {"training.recompute_modules", "has a fixed list of modules (--recompute-modules)",
     [](const Plan& p, const Model&) { return p.training.recompute_modules.empty(); },
     [](Plan& p, const Model&) { p.training.recompute_modules.clear(); }},
    {"training.recompute_budget", no_memory_keys,
     [](const Plan& p, const Model&) { return !p.training.recompute_budget; },
     [](Plan& p, const Model&) {
       p.training.recompute_budget.reset();
       p.training.recompute = Recompute::full;
     }},
    {"training.recompute",
     "recomputes blocks in groups of a fixed number: full, group_N or selective",
     [](const Plan& p, const Model&) {
       return p.training.recompute != Recompute::each &&
              p.training.recompute != Recompute::contiguous;
     },
     [](Plan& p, const Model& m) {
       if (p.training.recompute == Recompute::contiguous) {
         p.training.recompute_group = std::max(1, m.layers / p.virtual_stage_count());
         p.training.recompute = p.training.recompute_group > 1 ? Recompute::group : Recompute::full;
       } else {
         p.training.recompute = Recompute::full;
       }
     }},
    {"training.attention", "has unfused, flash (2) and fused (cuDNN) attention",
     [](const Plan& p, const Model&) {
       return p.training.attention != AttentionKernel::flash &&
              p.training.attention != AttentionKernel::flash3;
     },
     [](Plan& p, const Model&) { p.training.attention = AttentionKernel::flash2; }},
    only<&Training::compiler, CompilerLevel::fused>("training.compiler",
                                                    "has fused kernels for each module"),
    only<&Training::memory_of, MemoryOf::engine>("training.memory_of",
                                                 "is predicted with the engine's memory"),
    {"training.passes_off", no_memory_keys,
     [](const Plan& p, const Model&) { return p.training.passes_off.empty(); },
     [](Plan& p, const Model&) { p.training.passes_off.clear(); }},
    {"training.optimizer", "has adamw (--optimizer adam) and sgd",
     [](const Plan& p, const Model&) {
       return p.training.optimizer == OptimizerKind::adamw ||
              p.training.optimizer == OptimizerKind::sgd;
     },
     [](Plan& p, const Model&) { p.training.optimizer = OptimizerKind::adamw; }},
    {"training.master_weights",
     "keeps masters in fp32, or their lower 16 bits beside bf16 weights with the precision-aware "
     "distributed optimizer (ZeRO 1, adamw)",
     [](const Plan& p, const Model&) {
       const bool aware =
           p.parallelism.zero_stage == 1 && p.training.precision != Precision::fp32 &&
           p.training.precision != Precision::fp16 && p.training.optimizer == OptimizerKind::adamw;
       return p.training.master_weights == MasterWeights::fp32 ||
              (aware && p.training.master_weights == MasterWeights::remainders);
     },
     [](Plan& p, const Model&) { p.training.master_weights = MasterWeights::fp32; }},
    {"training.moments_precision", "keeps moments in bf16 beside the lower bits of masters only",
     [](const Plan& p, const Model&) {
       return p.training.moments == Dtype::f32 ||
              p.training.master_weights == MasterWeights::remainders;
     },
     [](Plan& p, const Model&) { p.training.moments = Dtype::f32; }},
    {"training.loss_scale", "halves the scale (factor 2)",
     [](const Plan& p, const Model&) {
       return !p.training.loss_scale || !p.training.loss_scale->dynamic ||
              p.training.loss_scale->factor == 2;
     },
     [](Plan& p, const Model&) { p.training.loss_scale->factor = 2; }},
};

// Returns Megatron-Core's default size of gradient buckets, in bytes: max(40 M, 1 M for each rank
// that reduces) elements (megatron/core/distributed/distributed_data_parallel.py).
std::int64_t usual_bucket_bytes(const Plan& plan) {
  const std::int64_t ranks = std::int64_t{plan.parallelism.data} * plan.parallelism.context;
  return std::max<std::int64_t>(40'000'000, 1'000'000 * ranks) * gradient_bytes(plan);
}

}  // namespace

void settle_as_megatron(Plan& plan, const Model& model) {
  Parallelism& p = plan.parallelism;
  if (p.tensor == 1) p.sequence_parallel = false;
  if (same_placement(p, p.placement, "PDT"))
    p.placement = "PDT";
  else if (same_placement(p, p.placement, "DPT"))
    p.placement = "DPT";
  const bool once = p.zero_stage <= 1;
  if (p.reduce_gradients == ReduceGradients::usual)
    p.reduce_gradients = once ? ReduceGradients::last : ReduceGradients::each;
  if (p.reduce_bucket_bytes == 0 && once) p.reduce_bucket_bytes = usual_bucket_bytes(plan);
  if (p.shard == p.data * p.context || p.zero_stage == 0) p.shard = 1;
  p.overlap_tensor = p.tensor > 1;
  settle_context_exchange(p);
  if (p.expert == 1) p.overlap_expert = false;
  p.pipeline_scatter_gather = p.tensor == 1 || p.sequence_parallel;
  p.memory_weight = 0;  // only the search for stages uses it, and the plan names them
  if (p.schedule == ScheduleKind::interleaved && p.virtual_stages == 1)
    p.schedule = ScheduleKind::one_f_one_b;
  Training& t = plan.training;
  if (t.recompute == Recompute::each) t.recompute = Recompute::full;
  if (t.recompute == Recompute::none) t.recompute_fraction = 1;
  if (t.recompute != Recompute::group) t.recompute_group = 1;
  if (model.experts > 0) t.fp8_experts = multiplies_8_bits_in_experts(plan, model);
  if (!quantizes(t.precision)) t.first_layers_in_bf16 = t.last_layers_in_bf16 = 0;
  t.predicted_positions = 0;
  if (!t.scales_loss())
    t.loss_scale.reset();
  else
    t.loss_scale = t.settled_loss_scale();
  if (p.zero_stage == 0) p.overlap_parameters = false;
  name_stages(plan, model);
}

std::span<const Limit> megatron_limits() { return rows; }

const FrameworkLimits megatron_lm_limits = {rows, settle_as_megatron};

}  // namespace meshwright::compiler
