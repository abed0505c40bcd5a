// Element types of tensors, and the precisions in which a model is trained.
#pragma once

#include <cstdint>
#include <string_view>

#include "models/core/rooms.h"

namespace meshwright::core {

// e4m3 and e5m2 have 8 bits (Micikevicius et al., "FP8 Formats for Deep Learning", 2022): e4m3
// reaches 448 and has no infinity, e5m2 reaches 57344 with less precision.
// i16: the 16 bits that an fp32 number has in addition to its bf16 (exec/optimizer/remainders.h).
// e2m1: 4 bits, 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives (OCP Microscaling Formats, 2023). A
// byte holds two numbers, the first in its lower half.
// block8, block8u: an optimizer's first and second moments in 8 bits. A block is 256 codes, signed
// or unsigned, followed by the fp32 number that multiplies their values (exec/core/block_codes.h).
enum class Dtype : std::uint8_t {
  f64,
  f32,
  f16,
  bf16,
  e4m3,
  e5m2,
  i32,
  i16,
  e2m1,
  block8,
  block8u
};

constexpr bool is_in_blocks(Dtype dtype) {
  return dtype == Dtype::block8 || dtype == Dtype::block8u;
}
constexpr std::int64_t moment_block = 256, moment_block_bytes = 256 + 4;

constexpr std::int64_t bits_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f64:
      return 64;
    case Dtype::f32:
    case Dtype::i32:
      return 32;
    case Dtype::f16:
    case Dtype::bf16:
    case Dtype::i16:
      return 16;
    case Dtype::e4m3:
    case Dtype::e5m2:
    case Dtype::block8:
    case Dtype::block8u:
      return 8;
    case Dtype::e2m1:
      return 4;
  }
  return 0;
}
// Returns the bytes of a single element, rounded up.
constexpr std::int64_t bytes_of(Dtype dtype) { return (bits_of(dtype) + 7) / 8; }
// Returns the bytes of `elements` elements. A partial block takes the bytes of a whole one.
constexpr std::int64_t bytes_of(std::int64_t elements, Dtype dtype) {
  if (is_in_blocks(dtype)) return (elements + moment_block - 1) / moment_block * moment_block_bytes;
  return (elements * bits_of(dtype) + 7) / 8;
}
// Returns the mean bytes per element of a large tensor.
constexpr double mean_bytes_of(Dtype dtype) {
  return is_in_blocks(dtype) ? static_cast<double>(moment_block_bytes) / moment_block
                             : static_cast<double>(bits_of(dtype)) / 8;
}

constexpr bool is_16_bit(Dtype dtype) { return dtype == Dtype::f16 || dtype == Dtype::bf16; }
constexpr bool is_8_bit(Dtype dtype) { return dtype == Dtype::e4m3 || dtype == Dtype::e5m2; }
// Returns whether matrix multiplications read this type, with scales, after the pass `quantize`.
constexpr bool is_quantized(Dtype dtype) { return is_8_bit(dtype) || dtype == Dtype::e2m1; }
// Returns the largest finite value of e4m3 or e5m2.
constexpr float largest_of(Dtype dtype) { return dtype == Dtype::e5m2 ? 57344.0F : 448.0F; }

// The values of `training.precision`: the arithmetic of matrix multiplications and the type of
// activations.
enum class Precision : std::uint8_t { fp32, tf32, fp16, bf16, fp8, nvfp4, fp64 };
inline constexpr int precision_count = static_cast<int>(Precision::fp64) + 1;

// Returns whether the inputs of linear layers in blocks are quantized to 8 or 4 bits
// (models/compiler/passes/graph/quantize.h).
constexpr bool quantizes(Precision precision) {
  return precision == Precision::fp8 || precision == Precision::nvfp4;
}

// Returns the type in which activations and working parameters are stored. Under fp8 and nvfp4 it
// is bf16, and only the inputs of matrix multiplications are quantized.
constexpr Dtype storage_of(Precision precision) {
  switch (precision) {
    case Precision::fp32:
    case Precision::tf32:
      return Dtype::f32;
    case Precision::fp16:
      return Dtype::f16;
    case Precision::bf16:
    case Precision::fp8:
    case Precision::nvfp4:
      return Dtype::bf16;
    case Precision::fp64:
      return Dtype::f64;
  }
  return Dtype::f32;
}

constexpr std::string_view name_of(Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return "fp32";
    case Precision::tf32:
      return "tf32";
    case Precision::fp16:
      return "fp16";
    case Precision::bf16:
      return "bf16";
    case Precision::fp8:
      return "fp8";
    case Precision::nvfp4:
      return "nvfp4";
    case Precision::fp64:
      return "fp64";
  }
  return "?";
}

}  // namespace meshwright::core
