// Version 2 of SageMaker's model parallel library has these limits wherever it is started: in
// training jobs and on HyperPod.
#pragma once

#include <span>

#include "models/compiler/frameworks/framework.h"

namespace meshwright {

// Returns the limits on plans without pipeline stages. A plan with stages satisfies all of them.
std::span<const Limit> smp_limits();
// Returns the limits on all plans, with or without stages: those of the training step in such
// scripts.
std::span<const Limit> smp_training_limits();
// Returns whether transformers' classes build the model: Llama and Mixtral with silu in a gated MLP
// and RMSNorm, others with an MLP that is not gated.
bool is_causal_of_scripts(const Model& model);
void settle_as_smp(Plan& plan, const Model& model);

}  // namespace meshwright
