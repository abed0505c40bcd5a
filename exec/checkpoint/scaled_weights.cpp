#include "exec/checkpoint/scaled_weights.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "exec/core/eight_bits.h"
#include "exec/core/four_bits.h"

namespace meshwright::exec {

std::vector<float> from_mxfp4(std::string_view blocks, std::string_view scales,
                              std::int64_t matrices, std::int64_t rows, std::int64_t groups) {
  constexpr std::int64_t group = 32, group_bytes = group / 2;
  constexpr int bias = 127, not_a_number = 255;
  const auto* packed = reinterpret_cast<const std::uint8_t*>(blocks.data());
  std::vector<float> weights(matrices * rows * groups * group);
  std::array<float, group> wide{};
  for (std::int64_t matrix = 0; matrix < matrices; ++matrix)
    for (std::int64_t g = 0; g < groups; ++g) {
      float* const turned = weights.data() + (matrix * groups + g) * group * rows;
      for (std::int64_t row = 0; row < rows; ++row) {
        const std::int64_t index = (matrix * rows + row) * groups + g;
        const auto exponent = static_cast<std::uint8_t>(scales[index]);
        const float scale = exponent == not_a_number ? NAN : std::ldexp(1.0F, exponent - bias);
        widen_4_bits(packed + index * group_bytes, group, scale, wide.data());
        for (std::int64_t i = 0; i < group; ++i) turned[i * rows + row] = wide[i];
      }
    }
  return weights;
}

std::vector<float> from_fp8_blocks(std::string_view numbers, std::string_view scales,
                                   std::int64_t rows, std::int64_t columns) {
  const auto* from = reinterpret_cast<const std::uint8_t*>(numbers.data());
  const std::int64_t blocks = (columns + fp8_block - 1) / fp8_block;
  std::vector<float> weights(rows * columns);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t block = 0; block < blocks; ++block) {
      float scale = 0;
      std::memcpy(&scale, scales.data() + (row / fp8_block * blocks + block) * 4, sizeof scale);
      const std::int64_t first = block * fp8_block, at = row * columns + first;
      widen_8_bits(from + at, Dtype::e4m3, std::min(fp8_block, columns - first), scale,
                   weights.data() + at);
    }
  return weights;
}

}  // namespace meshwright::exec
