// Maps the names of Megatron-Bridge's ConfigContainer and of NeMo's recipes to the equivalent
// arguments of Megatron-LM.
#pragma once

#include <span>
#include <string_view>

namespace meshwright {

enum class BridgeValue : unsigned char {
  same,     // the same value
  flag,     // true or false; Megatron-LM has the argument or has it not
  off_flag  // true where Megatron-LM's argument, which turns it off, is missing
};

struct BridgeName {
  std::string_view bridge;    // "model.tensor_model_parallel_size"
  std::string_view megatron;  // "tensor-model-parallel-size"
  BridgeValue value = BridgeValue::same;
};

// Returns the table of names. If several rows have the same Megatron-LM argument, the first one is
// written. Composite settings (mixed_precision, activations, types) are translated by hand:
// read_bridge.cpp, read_nemo.cpp.
std::span<const BridgeName> bridge_names();
std::span<const BridgeName> nemo_names();

}  // namespace meshwright
