// Limits of what runs transformers' models and its Trainer.
#pragma once

#include <span>

#include "models/compiler/frameworks/framework.h"

namespace meshwright {

// What a model that transformers builds, and its Trainer, cannot express.
std::span<const Limit> trainer_limits();
void settle_as_trainer(Plan& plan, const Model& model);

}  // namespace meshwright
