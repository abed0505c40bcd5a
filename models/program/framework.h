// Names the framework that a plan is for: whose kernels a predicted step runs, and whose settings
// can express the plan (models/compiler/frameworks/framework.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/core/rooms.h"

namespace meshwright::program {

enum class Framework : std::uint8_t {
  meshwright,  // this project's engine: every plan
  megatron_lm,
  megatron_bridge,
  torchtitan,
  deepspeed,
  accelerate,
  sagemaker,
  hyperpod,
  transformers,  // Trainer, without a framework beside it
  pytorch,       // plain PyTorch, and frameworks that are built on nothing else
  jax,
  tensorflow
};

// Returns whether the framework runs PyTorch's own operations, one by one or by torch.compile.
constexpr bool is_of_pytorch(Framework framework) {
  return framework == Framework::torchtitan || framework == Framework::deepspeed ||
         framework == Framework::accelerate || framework == Framework::transformers ||
         framework == Framework::pytorch;
}

// Returns whether adapters are peft's, the library of transformers and of what is built on it.
constexpr bool has_adapters_of_peft(Framework framework) {
  return framework == Framework::transformers || framework == Framework::accelerate ||
         framework == Framework::deepspeed;
}

// Returns the words for them in job files, in the order of the enumerators.
const std::vector<std::string>& framework_words();

}  // namespace meshwright::program
