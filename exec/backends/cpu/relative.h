// Biases by relative position (models/program/graph/relative.h), a block of scores at a time. Many
// scores of a block have the same distance, so the table is read, or its gradient added to, once
// for each distance instead of once for each score.
#pragma once

#include <array>

#include "exec/backends/cpu/tile.h"
#include "models/program/graph/relative.h"

namespace meshwright::exec::cpu {

// The column of one head in a table [relative_buckets, heads] of biases or of their gradients.
// `data` is null if the attention has no table.
template <typename T>
struct RelativeColumn {
  const Attributes& a;
  T* data = nullptr;
  T& at(std::int64_t distance) const {
    return data[std::int64_t{relative_bucket(a, distance)} * a.heads];
  }
};

// Splits tile t, of at most tile_length rows, into blocks of at most tile_length keys. Calls
// visit(block, first, count) for each: distances (key position less query position) in the block
// run from `first`, that of its first key and last row, and there are `count` of them.
template <typename Visit>
void for_each_relative_block(const Tile& t, const Visit& visit) {
  for (std::int64_t j = 0; j < t.columns; j += tile_length) {
    const Tile block{t.i0, t.rows, t.j0 + j, std::min(tile_length, t.columns - j)};
    visit(block, block.j0 - (block.i0 + block.rows - 1), block.rows + block.columns - 1);
  }
}

// Adds to scores[t.rows, t.columns] the bias of each score's distance. Rows of scores are `row`
// elements apart.
template <typename T>
void add_relative(const RelativeColumn<const T>& table, const Tile& t, T* scores,
                  std::int64_t row) {
  std::array<T, 2 * tile_length> bias;
  for_each_relative_block(t, [&](const Tile& block, std::int64_t first, std::int64_t count) {
    for (std::int64_t d = 0; d < count; ++d) bias[d] = table.at(first + d);
    for (std::int64_t i = 0; i < block.rows; ++i) {
      const T* of_row = bias.data() + (block.rows - 1 - i);
      T* to = scores + i * row + (block.j0 - t.j0);
#pragma omp simd
      for (std::int64_t j = 0; j < block.columns; ++j) to[j] += of_row[j];
    }
  });
}

// Adds to the table's gradient, for each distance, `factor` times the sum of the scores' gradients
// at that distance. Rows of gradients are `row` elements apart.
template <typename T>
void add_relative_sums(const RelativeColumn<T>& table, const Tile& t, const T* gradients,
                       std::int64_t row, T factor) {
  std::array<T, 2 * tile_length> sums;
  for_each_relative_block(t, [&](const Tile& block, std::int64_t first, std::int64_t count) {
    std::fill_n(sums.begin(), count, T(0));
    for (std::int64_t i = 0; i < block.rows; ++i) {
      T* of_row = sums.data() + (block.rows - 1 - i);
      const T* from = gradients + i * row + (block.j0 - t.j0);
#pragma omp simd
      for (std::int64_t j = 0; j < block.columns; ++j) of_row[j] += from[j];
    }
    for (std::int64_t d = 0; d < count; ++d) table.at(first + d) += factor * sums[d];
  });
}

}  // namespace meshwright::exec::cpu
