#include "models/compiler/frameworks/pytorch.h"

#include "models/compiler/frameworks/limit_rows.h"
#include "models/compiler/frameworks/stages.h"

namespace meshwright::compiler {

namespace {

// Returns whether blocks are recomputed in a way that these frameworks have: not at all, or each
// block by itself, fully or selectively.
bool is_usual_recompute(const Training& t) {
  return t.recompute == Recompute::none || t.recompute == Recompute::full ||
         t.recompute == Recompute::selective;
}

constexpr Limit shared[] = {
    {"parallelism.schedule", "runs micro-batches one after the other without stages: 1f1b",
     [](const Plan& p, const Model&) {
       return p.parallelism.pipeline > 1 || p.parallelism.schedule == ScheduleKind::one_f_one_b;
     },
     [](Plan& p, const Model&) {
       p.parallelism.schedule = ScheduleKind::one_f_one_b;
       p.parallelism.virtual_stages = 1;
     }},
    only<&Parallelism::active_microbatches, 0>("parallelism.active_microbatches",
                                               "has no such setting"),
    only<&Parallelism::overlap_expert, false>("parallelism.overlap",
                                              "has nothing beside what experts exchange"),
    only<&Parallelism::tensor_layout, TensorLayout::megatron>("parallelism.tensor_layout",
                                                              "cuts tensors as `megatron` does"),
    only<&Parallelism::tensor_batch_own, false>("parallelism.tensor_batch",
                                                "gives all tensor ranks the same sequences"),
    {"parallelism.offload",
     "has no setting that moves checkpointed activations, or states that the device steps, to the "
     "host",
     [](const Plan& p, const Model&) { return p.parallelism.offload == Offload::none; },
     [](Plan& p, const Model&) {
       p.parallelism.offload = Offload::none;
       p.parallelism.offload_horizon = 0;
     }},
    only<&Parallelism::shard_whole, false>("parallelism.shard_layout", "cuts sharded buffers flat"),
    only<&Parallelism::hierarchical_gather, true>("parallelism.hierarchical_gather",
                                                  "leaves that to NCCL"),
    only<&Training::fp8_experts, false>("training.fp8_experts",
                                        "has products of 8 bits outside of experts only"),
    {"training.first_layers_in_bf16", "has no setting for it that is written or read here",
     [](const Plan& p, const Model&) { return !p.training.has_layers_in_bf16(); },
     [](Plan& p, const Model&) {
       p.training.first_layers_in_bf16 = p.training.last_layers_in_bf16 = 0;
     }},
    unset<&Training::recompute_modules>("training.recompute_modules",
                                        "recomputes blocks, not modules of a list"),
    {"training.recompute", "recomputes each block by itself: none, full, selective",
     [](const Plan& p, const Model&) { return is_usual_recompute(p.training); },
     [](Plan& p, const Model&) {
       p.training.recompute = Recompute::full;
       p.training.recompute_group = 1;
     }},
    // For a captured model, `fused` is what torch.compile makes of its segments.
    {"training.compiler", "runs PyTorch's kernels one by one (none), or torch.compile (full)",
     [](const Plan& p, const Model& m) {
       return m.captured || p.training.compiler != CompilerLevel::fused;
     },
     [](Plan& p, const Model&) { p.training.compiler = CompilerLevel::full; }},
    {"training.passes_off", "has no such setting",
     [](const Plan& p, const Model&) { return p.training.passes_off.empty(); },
     [](Plan& p, const Model&) { p.training.passes_off.clear(); }},
    only<&Training::memory_of, MemoryOf::engine>("training.memory_of",
                                                 "is predicted with the engine's memory"),
};

void settle_sharding(Plan& plan) {
  Parallelism& p = plan.parallelism;
  if (replicas_of(plan) == 1) p.zero_stage = 0;
  if (p.zero_stage == 0 || p.shard == replicas_of(plan)) p.shard = 1;
  if (p.zero_stage == 3) return;
  p.keeps_gathered = false;
  p.max_live_parameters = p.persistence_threshold = 0;
}

}  // namespace

std::span<const Limit> pytorch_limits() { return shared; }

std::vector<Limit> joined(std::initializer_list<std::span<const Limit>> lists) {
  std::vector<Limit> all;
  for (const std::span<const Limit> list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

void settle_as_pytorch(Plan& plan, const Model& model) {
  settle_sharding(plan);
  Parallelism& p = plan.parallelism;
  if (same_placement(p, p.placement, "PDT")) p.placement = "PDT";
  settle_context_exchange(p);
  if (p.expert == 1) p.overlap_expert = false;
  if (p.tensor == 1) {
    p.overlap_tensor = false;
    p.tensor_chunks = 1;
    p.tensor_layout = TensorLayout::megatron;
    p.tensor_batch_own = false;
  }
  if (p.offload == Offload::none) p.offload_horizon = 0;
  if (p.schedule == ScheduleKind::interleaved && p.virtual_stages == 1)
    p.schedule = ScheduleKind::one_f_one_b;
  p.memory_weight = 0;  // only the search for stages uses it, and the plan names them
  Training& t = plan.training;
  t.fuse_gradient_accumulation =
      false;  // gradients of a micro-batch are added by a kernel of their own
  t.cuda_graph = false;
  t.cross_entropy_fusion = true;  // the key concerns Megatron's loss only
  t.predicted_positions = 0;
  if (t.optimizer != OptimizerKind::sgd) t.momentum = 0.9;
  if (storage_of(t.precision) == Dtype::f32) t.master_weights = MasterWeights::fp32;
  if (t.precision != Precision::fp8) t.fp8_recipe = Fp8Recipe::tensorwise;
  if (plan.parallelism.zero_stage < 3) t.fp8_gathers = false;  // nothing is gathered
  if (!quantizes(t.precision)) {
    t.fp8_experts = t.fp8_gathers = false;
    t.first_layers_in_bf16 = t.last_layers_in_bf16 = 0;
  }
  if (t.recompute == Recompute::each || (t.recompute == Recompute::group && t.recompute_group == 1))
    t.recompute = Recompute::full;
  if (t.recompute_fraction == 0) t.recompute = Recompute::none;
  if (t.recompute == Recompute::none) t.recompute_fraction = 1;
  if (t.recompute != Recompute::group) t.recompute_group = 1;
  name_stages(plan, model);
}

}  // namespace meshwright::compiler
