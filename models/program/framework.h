// Lists the frameworks for which a plan can be made. The kernels of a predicted step are those of
// its framework, and the plan can be expressed by the framework's settings
// (models/compiler/frameworks/framework.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/core/rooms.h"

namespace meshwright::program {

enum class Framework : std::uint8_t {
  meshwright,  // the engine of this project
  megatron_lm,
  megatron_bridge,
  torchtitan,
  deepspeed,
  accelerate,
  sagemaker,
  hyperpod,
  transformers,  // its Trainer, without accelerate's or DeepSpeed's settings
  pytorch,       // plain PyTorch, and other frameworks that add no kernels to it
  jax,
  tensorflow
};

// Returns whether predictions assume that the framework runs PyTorch's own operations, one by one
// or by torch.compile.
constexpr bool is_of_pytorch(Framework framework) {
  return framework == Framework::torchtitan || framework == Framework::deepspeed ||
         framework == Framework::accelerate || framework == Framework::transformers ||
         framework == Framework::pytorch;
}

// Returns whether LoRA's adapters are those of the library peft in this framework.
constexpr bool has_adapters_of_peft(Framework framework) {
  return framework == Framework::transformers || framework == Framework::accelerate ||
         framework == Framework::deepspeed;
}

// Returns the words for the frameworks in job files, in the order of the enumerators.
const std::vector<std::string>& framework_words();

}  // namespace meshwright::program
