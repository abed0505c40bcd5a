// Lists the kernels among which a plan may choose, if an operation has several.
#pragma once

#include <cstdint>

namespace meshwright::program {

enum class AttentionKernel : std::uint8_t {
  unfused,  // scores are in memory; saved = probabilities [b*heads, s, s] in the storage type
  flash,    // saved = log-sum-exp [b*heads, s] f32
  flash2,   // as flash, second generation (faster)
  flash3,   // as flash, for the asynchronous tensor cores of Hopper
  cudnn     // as flash, cuDNN's kernels for Hopper and newer
};

// Recipes for fp8. The comments say which elements share a scale, and what it is computed from
// (models/compiler/passes/graph/quantize.h).
enum class Fp8Recipe : std::uint8_t {
  delayed,     // a tensor; from its largest elements in earlier steps
  tensorwise,  // a tensor; from its own largest element
  blockwise,   // 1 x 128 elements of activations and gradients, 128 x 128 of weights
  mxfp8        // 32 elements along the summed dimension; scales are powers of two
};

// Says which kernels run a step. none: one per framework operation. fused: also the hand-fused ones
// of Megatron-LM. full: those of this project's training compiler.
enum class CompilerLevel : std::uint8_t { none, fused, full };

}  // namespace meshwright::program
