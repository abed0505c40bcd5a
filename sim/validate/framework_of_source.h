// Tells whose training steps a public repository publishes.
#pragma once

#include <string_view>

#include "models/program/framework.h"

namespace meshwright::sim {

// Returns the framework of a known repository in `where`, the text that says where a source is
// public, or meshwright if it names none. Code bases with kernels of their own have none.
Framework framework_of_source(std::string_view where);

// Returns whether that repository's code trains in bf16 alone, where it trains in bf16: torchtune's
// `dtype` is that of weights, gradients and moments.
bool keeps_states_in_16_bits(std::string_view where);

}  // namespace meshwright::sim
