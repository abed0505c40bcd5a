// Factors of a product rounded to 8 bits (Micikevicius et al., "FP8 Formats for Deep Learning",
// 2022): e4m3 for activations and weights, e5m2, which reaches further, for gradients. A matrix has
// one scale, made of its own largest element, so that this becomes the format's largest number.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "models/core/dtype.h"

namespace meshwright::cuda {

// `matrix`: [rows, columns] bf16, both multiples of 16. `rounded`: as it lies, or [columns, rows]
// where `transposes`. `largest`: of the magnitudes; `scale`: rounded numbers times this are those
// of the matrix. All aligned to 16 bytes but the two floats.
struct Fp8Factor {
  const void* matrix = nullptr;
  std::int64_t rows = 0, columns = 0;
  bool transposes = false;
  Dtype format = Dtype::e4m3;
  unsigned char* rounded = nullptr;
  float* largest = nullptr;
  float* scale = nullptr;
};
void find_largest(const Fp8Factor& factor, cudaStream_t stream);
void round_by_largest(const Fp8Factor& factor, cudaStream_t stream);  // makes `scale` too

}  // namespace meshwright::cuda
