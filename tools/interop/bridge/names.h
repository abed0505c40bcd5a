// Maps the names of Megatron-Bridge's ConfigContainer and of NeMo's recipes to the equivalent
// arguments of Megatron-LM.
#pragma once

#include <span>
#include <string_view>

namespace meshwright::interop {

enum class BridgeValue : unsigned char {
  same,     // the same value
  flag,     // true or false; Megatron-LM has a flag without a value
  off_flag  // true if Megatron-LM's argument, which turns it off, is absent
};

struct BridgeName {
  std::string_view bridge;    // "model.tensor_model_parallel_size"
  std::string_view megatron;  // "tensor-model-parallel-size"
  BridgeValue value = BridgeValue::same;
};

// Return the tables of names of Megatron-Bridge and of NeMo. If several rows have the same
// Megatron-LM argument, exports write the first one. Composite settings (mixed_precision,
// activations, types) are translated by hand in read_bridge.cpp and read_nemo.cpp.
std::span<const BridgeName> bridge_names();
std::span<const BridgeName> nemo_names();

}  // namespace meshwright::interop
