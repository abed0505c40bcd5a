// DeepSpeed and accelerate train transformers' models with transformers' Trainer. They share these
// limits.
#pragma once

#include <span>

#include "models/compiler/frameworks/framework.h"

namespace meshwright::compiler {

// Returns the limits of the models that transformers builds, and of its Trainer.
std::span<const Limit> trainer_limits();
void settle_as_trainer(Plan& plan, const Model& model);

}  // namespace meshwright::compiler
