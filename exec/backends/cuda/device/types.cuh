// Maps the storage types of tensors to the C++ types of kernels.
#pragma once

#include <cstdint>

#include "exec/backends/cuda/device/prelude.cuh"
#include "models/core/dtype.h"
#include "models/core/error.h"

namespace meshwright::exec::cuda {

// The number of elements of type T in 16 bytes, which kernels move at once.
template <typename T>
constexpr int vector_of = 16 / static_cast<int>(sizeof(T));

// Calls `work` with a value of the C++ type: float, bf16 or f16. Throws NotSupportedYet for other
// types.
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

// Calls work.operator()<T, vector>(), where `vector` is how many neighbouring elements are moved at
// once. It is the number of elements in 16 bytes if `unit` is a multiple of that number, otherwise
// 1. The widths of rows, and the offsets at which their parts begin, must be multiples of `unit`
// elements.
template <typename Work>
void with_vectors(Dtype dtype, std::int64_t unit, Work work) {
  with_type(dtype, [&]<typename T>(T) {
    if (unit % vector_of<T> == 0)
      work.template operator()<T, vector_of<T>>();
    else
      work.template operator()<T, 1>();
  });
}

}  // namespace meshwright::exec::cuda
