// Sums over the rows of a matrix, column by column, for the gradients of biases and of norms'
// weights.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "exec/backends/cpu/kernels.h"

namespace meshwright::exec::cpu {

// Adds to output[c], or stores there if the call overwrites the output, the sum over r of term(r,
// c). Rows are added in order in groups of 64, then the groups in order, which keeps rounding
// errors small over many rows. If there are few rows, one piece of work has several tiles of 64
// columns.
template <typename T, typename Term>
void add_column_sums(const KernelCall& k, std::int64_t rows, std::int64_t columns,
                     std::size_t output, const Term& term) {
  T* sums = k.out<T>(output);
  const bool adds = !k.call.overwrites_output(output);
  constexpr std::int64_t tile = 64, group = 64, terms_per_piece = 16384;
  const auto add_tile = [=](std::int64_t begin, std::int64_t width) {
    std::array<T, tile> total{};
    for (std::int64_t first = 0; first < rows; first += group) {
      std::array<T, tile> partial{};
      T* sum = partial.data();
      for (std::int64_t r = first; r < std::min(first + group, rows); ++r) {
#pragma omp simd
        for (std::int64_t c = 0; c < width; ++c) sum[c] += term(r, begin + c);
      }
      for (std::size_t c = 0; c < tile; ++c) total[c] += partial[c];
    }
    T* sum = sums + begin;
    for (std::int64_t c = 0; c < width; ++c) sum[c] = (adds ? sum[c] : T(0)) + total[c];
  };
  const std::int64_t tiles =
      std::max<std::int64_t>(1, terms_per_piece / (tile * std::max(rows, std::int64_t{1})));
  parallel_for(k.pool, columns, tiles * tile, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin; at < end; at += tile) add_tile(at, std::min(tile, end - at));
  });
}

}  // namespace meshwright::exec::cpu
