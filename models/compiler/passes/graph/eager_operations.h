// Replaces modules by what an eager framework runs: the elementary operations that Hugging Face's
// PyTorch code is written in. Each is one kernel that reads and writes memory and has a gradient of
// its own.
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

// Replaces gelu's tanh form, swiglu, rms_norm, rope and unfused attention. Operations stay whole if
// they are one kernel in PyTorch too (layer_norm, gelu's erf form, attention by a library), if the
// ranks of a tensor group compute them together, or for rope of packed documents or with a
// temperature.
Graph eager_operations(Graph graph, const Plan& plan);

// Replaces cross_entropy by log-softmax in fp32, from which the losses of the targets are picked.
// Libraries for language models have one kernel for all of it instead. If a tensor group shares the
// logits, the operation stays in pieces that are computed in fp32, and gets the type of the logits
// as an attribute.
Graph eager_loss(Graph graph, const Plan& plan);

}  // namespace meshwright::compiler
