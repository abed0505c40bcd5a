// Maps the storage types of tensors to the C++ types of kernels.
#pragma once

#include <cstdint>

#include "exec/backends/cuda/device/prelude.cuh"
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

// Calls work.operator()<T, vector>(): how many neighbouring elements of rows whose widths, and the
// places where their parts begin, are multiples of `unit` are moved at once.
template <typename Work>
void with_vectors(Dtype dtype, std::int64_t unit, Work work) {
  with_type(dtype, [&]<typename T>(T) {
    if (unit % vector_of<T> == 0)
      work.template operator()<T, vector_of<T>>();
    else
      work.template operator()<T, 1>();
  });
}

}  // namespace meshwright::cuda
