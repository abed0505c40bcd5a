// Which kernel serves which storage type.
#pragma once

#include "exec/backends/cuda/prelude.cuh"
#include "models/core/dtype.h"
#include "models/core/error.h"

namespace meshwright::cuda {

// Elements that are moved 16 bytes at a time.
template <typename T>
constexpr int vector_of = 16 / static_cast<int>(sizeof(T));

// Calls `work` with a number of the type: fp32, bf16 or fp16.
template <typename Work>
void with_type(Dtype dtype, Work work) {
  switch (dtype) {
    case Dtype::f32:
      return work(float{});
    case Dtype::bf16:
      return work(bf16{});
    case Dtype::f16:
      return work(f16{});
    default:
      throw NotSupportedYet("CUDA kernels take fp32, bf16 and fp16");
  }
}

}  // namespace meshwright::cuda
