// Defines the element types of tensors and the precisions in which a model is trained.
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
// nf4, nf4_double, int4_32 to int4_256: weights that are not trained, in blocks of 4-bit codes and
// their scales (exec/core/weight_blocks.h). int4_32 has a scale for every 32 elements.
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
  block8u,
  nf4,
  nf4_double,
  int4_32,
  int4_64,
  int4_128,
  int4_256
};

constexpr std::int64_t moment_block = 256, moment_block_bytes = 256 + 4;

// The size of a block of a type that stores elements and their common scale together: the number of
// its elements, and its bytes with all scales. Both are 0 for types that have no blocks.
struct DtypeBlock {
  std::int64_t elements = 0, bytes = 0;
};
constexpr DtypeBlock dtype_block(Dtype dtype) {
  switch (dtype) {
    case Dtype::block8:
    case Dtype::block8u:
      return {moment_block, moment_block_bytes};
    case Dtype::nf4:
      return {64, 64 / 2 + 4};
    case Dtype::nf4_double:
      return {256 * 64, 256 * 64 / 2 + moment_block_bytes};
    case Dtype::int4_32:
      return {32, 32 / 2 + 2};
    case Dtype::int4_64:
      return {64, 64 / 2 + 2};
    case Dtype::int4_128:
      return {128, 128 / 2 + 2};
    case Dtype::int4_256:
      return {256, 256 / 2 + 2};
    default:
      return {};
  }
}
constexpr bool is_in_blocks(Dtype dtype) { return dtype_block(dtype).elements > 0; }

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
    case Dtype::nf4:
    case Dtype::nf4_double:
    case Dtype::int4_32:
    case Dtype::int4_64:
    case Dtype::int4_128:
    case Dtype::int4_256:
      return 4;
  }
  return 0;
}
// Returns the bytes of a single element without scales, rounded up.
constexpr std::int64_t bytes_of(Dtype dtype) { return (bits_of(dtype) + 7) / 8; }
// Returns the bytes of `elements` elements, rounded up. A partial block takes the bytes of a whole
// one.
constexpr std::int64_t bytes_of(std::int64_t elements, Dtype dtype) {
  if (const DtypeBlock block = dtype_block(dtype); block.elements > 0)
    return (elements + block.elements - 1) / block.elements * block.bytes;
  return (elements * bits_of(dtype) + 7) / 8;
}
// Returns the bytes per element of a tensor of whole blocks, or of a whole number of bytes.
constexpr double mean_bytes_of(Dtype dtype) {
  const DtypeBlock block = dtype_block(dtype);
  return block.elements > 0 ? static_cast<double>(block.bytes) / static_cast<double>(block.elements)
                            : static_cast<double>(bits_of(dtype)) / 8;
}

constexpr bool is_16_bit(Dtype dtype) { return dtype == Dtype::f16 || dtype == Dtype::bf16; }
constexpr bool is_8_bit(Dtype dtype) { return dtype == Dtype::e4m3 || dtype == Dtype::e5m2; }
// Returns whether this is a type to which the pass `quantize` rounds the inputs of matrix
// multiplications. Their scales are tensors of their own.
constexpr bool is_quantized(Dtype dtype) { return is_8_bit(dtype) || dtype == Dtype::e2m1; }
// Returns the largest finite value of e4m3 or e5m2.
constexpr float largest_of(Dtype dtype) { return dtype == Dtype::e5m2 ? 57344.0F : 448.0F; }

// The values of `training.precision`: the arithmetic of matrix multiplications and the type of
// activations.
enum class Precision : std::uint8_t { fp32, tf32, fp16, bf16, fp8, nvfp4, fp64 };
inline constexpr int precision_count = static_cast<int>(Precision::fp64) + 1;

// Returns whether linear layers of transformer blocks multiply inputs of 8 or 4 bits
// (models/compiler/passes/graph/quantize.h names the exceptions).
constexpr bool quantizes(Precision precision) {
  return precision == Precision::fp8 || precision == Precision::nvfp4;
}

// Returns the type in which activations and the parameters that kernels read are stored by default.
// Under fp8 and nvfp4 it is bf16, and only inputs of matrix multiplications are quantized.
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
