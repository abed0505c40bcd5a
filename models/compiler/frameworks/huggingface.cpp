// This file lists which plans transformers' models and Trainer can run.
#include "models/compiler/frameworks/huggingface.h"
#include "models/compiler/frameworks/limit_rows.h"
#include "models/compiler/frameworks/pytorch.h"

namespace meshwright::compiler {

namespace {

bool is_causal_of_transformers(const Model& m) {
  return m.is_causal() && m.head == Head::lm && m.experts == 0 &&
         m.gated_ffn == (m.architecture == Architecture::llama) &&
         m.architecture != Architecture::mpt && m.architecture != Architecture::bloom;
}

bool is_kernel_of_transformers(const Training& t) {
  if (storage_of(t.precision) == Dtype::f32) return t.attention == AttentionKernel::unfused;
  return t.attention != AttentionKernel::flash;
}

// Turns the ranks of a degree into more data-parallel replicas, because the framework does not have
// this degree.
void give_to_replicas(int& degree, Parallelism& p) {
  p.data *= degree;
  degree = 1;
}

constexpr Limit shared[] = {
    {"model", "trains causal language models of transformers without experts",
     [](const Plan&, const Model& m) { return m.captured || is_causal_of_transformers(m); },
     nullptr},
    {"parallelism.pipeline", "has stages in a model's own code only; 1",
     [](const Plan& p, const Model&) { return p.parallelism.pipeline == 1; },
     [](Plan& p, const Model&) {
       give_to_replicas(p.parallelism.pipeline, p.parallelism);
       p.parallelism.virtual_stages = 1;
       p.parallelism.schedule = ScheduleKind::one_f_one_b;
       p.stage_of_unit.clear();
     }},
    only<&Parallelism::expert, 1>("parallelism.expert", "has no model with experts here; 1"),
    only<&Parallelism::sequence_parallel, false>(
        "parallelism.sequence_parallel", "keeps whole activations between tensor ranks' products"),
    {"parallelism.placement", "has one order of ranks: PDT",
     [](const Plan& p, const Model&) { return p.parallelism.placement == "PDT"; },
     [](Plan& p, const Model&) { p.parallelism.placement = "PDT"; }},
    only<&Training::dropout, 0>(
        "training.dropout", "takes dropout from the model's own configuration, here without any"),
    {"training.lora", "keeps frozen weights in 4 bits as nf4 (bitsandbytes) only",
     [](const Plan& p, const Model&) {
       return !p.training.lora || p.training.lora->base_weights != BaseWeights::int4;
     },
     [](Plan& p, const Model&) {
       p.training.lora->base_weights = BaseWeights::nf4;
       p.training.lora->group_size = 0;
     }},
    {"training.recompute_budget", "has no such setting",
     [](const Plan& p, const Model&) { return !p.training.recompute_budget; },
     [](Plan& p, const Model&) {
       p.training.recompute_budget.reset();
       p.training.recompute = Recompute::full;
     }},
    {"training.recompute", "recomputes all blocks in full, or none",
     [](const Plan& p, const Model&) { return p.training.recompute != Recompute::selective; },
     [](Plan& p, const Model&) { p.training.recompute = Recompute::full; }},
    only<&Training::recompute_fraction, 1>("training.recompute_fraction",
                                           "recomputes all blocks or none"),
    {"training.attention",
     "has eager attention, FlashAttention 2 and 3 and PyTorch's choice (cudnn), in fp32 the eager "
     "one",
     [](const Plan& p, const Model&) { return is_kernel_of_transformers(p.training); },
     [](Plan& p, const Model&) {
       p.training.attention = storage_of(p.training.precision) == Dtype::f32
                                  ? AttentionKernel::unfused
                                  : AttentionKernel::flash2;
     }},
};

}  // namespace

std::span<const Limit> trainer_limits() { return shared; }

void settle_as_trainer(Plan& plan, const Model& model) {
  settle_as_pytorch(plan, model);
  Parallelism& p = plan.parallelism;
  if (p.tensor == 1) p.sequence_parallel = false;
  p.pipeline_scatter_gather = true;
  if (replicas_of(plan) == 1) p.overlap_gradients = p.overlap_parameters = true;
}

}  // namespace meshwright::compiler
