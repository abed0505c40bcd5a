// What SageMaker's model parallel library, version 2, can run, wherever it is started: training
// jobs and HyperPod.
#pragma once

#include <span>

#include "models/compiler/frameworks/framework.h"

namespace meshwright {

// Of plans without stages; those with stages hold all of them.
std::span<const Limit> smp_limits();
// Of all plans with or without stages: the training step as such scripts have it.
std::span<const Limit> smp_training_limits();
// A model that transformers' classes build: Llama and Mixtral with silu in a gated MLP and RMSNorm,
// others with an MLP that is not gated.
bool is_causal_of_scripts(const Model& model);
void settle_as_smp(Plan& plan, const Model& model);

}  // namespace meshwright
