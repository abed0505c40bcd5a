// Element types of tensors, and the precisions in which a model is trained.
#pragma once

#include <cstdint>
#include <string_view>

namespace meshwright {

// Of 8 bits (Micikevicius et al., "FP8 Formats for Deep Learning", 2022): e4m3 up to 448, without
// infinity; e5m2 up to 57344, with less precision.
// i16: what an fp32 number has beside its bf16 (exec/optimizer/remainders.h).
enum class Dtype : std::uint8_t { f64, f32, f16, bf16, e4m3, e5m2, i32, i16 };

constexpr std::int64_t bytes_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f64:
      return 8;
    case Dtype::f32:
    case Dtype::i32:
      return 4;
    case Dtype::f16:
    case Dtype::bf16:
    case Dtype::i16:
      return 2;
    case Dtype::e4m3:
    case Dtype::e5m2:
      return 1;
  }
  return 0;
}

constexpr bool is_16_bit(Dtype dtype) { return dtype == Dtype::f16 || dtype == Dtype::bf16; }
constexpr bool is_8_bit(Dtype dtype) { return dtype == Dtype::e4m3 || dtype == Dtype::e5m2; }
// The largest finite number of 8 bits.
constexpr float largest_of(Dtype dtype) { return dtype == Dtype::e5m2 ? 57344.0F : 448.0F; }

// What `training.precision` says: the arithmetic of the matrix products and the type of
// activations.
enum class Precision : std::uint8_t { fp32, tf32, fp16, bf16, fp8 };

// The type in which activations and working parameters are stored. fp8 keeps them in bf16; what its
// matrix products read is quantized (models/passes/quantize.h).
constexpr Dtype storage_of(Precision precision) {
  switch (precision) {
    case Precision::fp32:
    case Precision::tf32:
      return Dtype::f32;
    case Precision::fp16:
      return Dtype::f16;
    case Precision::bf16:
    case Precision::fp8:
      return Dtype::bf16;
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
  }
  return "?";
}

}  // namespace meshwright
