// Reads and writes parts of a bucket's arrays in fp32, whatever types they are kept in.
#pragma once

#include <array>
#include <cstddef>

#include "exec/core/half.h"
#include "exec/optimizer/factors.h"
#include "exec/optimizer/optimizer.h"
#include "exec/optimizer/random_rounding.h"
#include "exec/optimizer/remainders.h"

namespace meshwright::exec {

inline constexpr std::int64_t tile = 4096;  // elements: whole 8-bit blocks

// Gives access to elements [at, at + count) of an array in fp32, at most a tile. An array in fp32
// is used in place. Others are converted to a copy, and written back by write().
class Tile {
 public:
  float* read(const void* array, Dtype type, std::int64_t at, std::int64_t count) {
    if (array == nullptr) return nullptr;
    const auto* from = static_cast<const std::byte*>(array) + bytes_of(at, type);
    if (type == Dtype::f32) return reinterpret_cast<float*>(const_cast<std::byte*>(from));
    widen(from, type, count, wide_.data());
    return wide_.data();
  }
  void write(void* array, Dtype type, std::int64_t at, std::int64_t count) const {
    if (array == nullptr || type == Dtype::f32) return;
    narrow(wide_.data(), type, count, static_cast<std::byte*>(array) + bytes_of(at, type));
  }
  void write_at_random(void* array, const std::uint32_t* words, int shift, std::int64_t at,
                       std::int64_t count) const {
    if (array != nullptr)
      narrow_at_random(wide_.data(), count, words, shift, static_cast<BFloat16*>(array) + at);
  }
  float* join(const OptimizerState& state, std::int64_t at, std::int64_t count) {
    exec::join(static_cast<const BFloat16*>(state.working) + at,
               static_cast<const std::int16_t*>(state.weights) + at, count, wide_.data());
    return wide_.data();
  }

 private:
  alignas(64) std::array<float, tile> wide_;
};

inline float* read_weights(const OptimizerState& state, Tile& wide, std::int64_t at,
                           std::int64_t count) {
  return state.weights_type == Dtype::i16 ? wide.join(state, at, count)
                                          : wide.read(state.weights, state.weights_type, at, count);
}

inline void write_weights(const OptimizerState& state, const Tile& wide, const float* weights,
                          std::int64_t at, std::int64_t count) {
  if (state.weights_type == Dtype::i16)
    return split(weights, count, static_cast<BFloat16*>(state.working) + at,
                 static_cast<std::int16_t*>(state.weights) + at);
  wide.write(state.weights, state.weights_type, at, count);
  if (state.working != nullptr)
    round_masters(weights, state.working_type, count,
                  static_cast<std::byte*>(state.working) + at * bytes_of(state.working_type));
}

// Moves the average of `count` weights towards them, by the share c.average of the way.
template <typename Real>
void move_average(const FactorsIn<Real>& c, const Real* __restrict__ weights, std::int64_t count,
                  Real* __restrict__ average) {
  for (std::int64_t i = 0; i < count; ++i) average[i] += c.average * (weights[i] - average[i]);
}

}  // namespace meshwright::exec
