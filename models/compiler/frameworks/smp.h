// The limits of version 2 of SageMaker's model parallel library. They are the same in training jobs
// and on HyperPod.
#pragma once

#include <span>

#include "models/compiler/frameworks/framework.h"

namespace meshwright::compiler {

// Returns the limits on plans without pipeline stages. A plan with stages satisfies all of them.
std::span<const Limit> smp_limits();
// Returns the limits on all plans, with or without stages, that come from the training step of such
// scripts.
std::span<const Limit> smp_training_limits();
// Returns whether transformers' classes build the model. It must be a causal language model: Llama
// or Mixtral with silu in a gated MLP and RMSNorm, or another one, except MPT and BLOOM, with
// LayerNorm and an MLP that is neither gated nor of ReLU.
bool is_causal_of_scripts(const Model& model);
void settle_as_smp(Plan& plan, const Model& model);

}  // namespace meshwright::compiler
