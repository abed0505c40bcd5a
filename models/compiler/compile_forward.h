// Compiles only the forward pass of a model, for calls that compute losses or logits and train
// nothing.
#pragma once

#include "models/compiler/compile.h"

namespace meshwright::compiler {

// Compiles the forward pass with its loss for one rank. The Program holds the weights and the
// activations of one micro-batch, but no gradients and no optimizer states, because every parameter
// is frozen. `plan` must be resolved and have all degrees 1. `device` describes the rank's device.
Compiled compile_forward(const Model& model, Plan plan, const DeviceFacts& device);

}  // namespace meshwright::compiler
