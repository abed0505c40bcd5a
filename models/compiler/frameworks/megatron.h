// The limits and defaults of Megatron-LM, which Megatron-Bridge shares because it is built on
// Megatron-LM.
#pragma once

#include <span>

#include "models/compiler/frameworks/framework.h"

namespace meshwright::compiler {

std::span<const Limit> megatron_limits();
void settle_as_megatron(Plan& plan, const Model& model);

}  // namespace meshwright::compiler
