// Kernels that a plan may ask for, where there are several.
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

// Recipes for fp8: each names the elements that share a scale
// (models/compiler/passes/graph/quantize.h).
enum class Fp8Recipe : std::uint8_t {
  delayed,     // a tensor, of the largest elements that earlier steps saw
  tensorwise,  // a tensor, of its own largest element
  blockwise,   // 1 x 128 elements of activations and gradients, 128 x 128 of weights
  mxfp8        // 32 elements along the sums; a power of two
};

// The kernels that exist: one per framework operation, Megatron's hand-fused ones, or the training
// compiler's.
enum class CompilerLevel : std::uint8_t { none, fused, full };

}  // namespace meshwright
