// Which kernels a plan asks for, where there are several.
#pragma once

#include <cstdint>

namespace meshwright {

enum class AttentionKernel : std::uint8_t {
  unfused,  // the score matrix is in memory; saved = probabilities [b*heads, s, s] in the storage
            // type
  flash,    // saved = log-sum-exp [b*heads, s] f32
  flash2,   // as flash, second generation (faster)
  flash3,   // as flash, for the asynchronous tensor cores of Hopper
  cudnn     // as flash, cuDNN's kernels for Hopper and newer
};

// Which kernels exist: one per framework operation, Megatron's hand-fused ones, or the training
// compiler's.
enum class CompilerLevel : std::uint8_t { none, fused, full };

}  // namespace meshwright
