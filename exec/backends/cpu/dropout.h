// Decides which elements dropout sets to 0. The choice depends only on (seed, module, sequence,
// row, column). So nothing is saved for the gradient, and recomputation and other parallel degrees
// drop the same elements.
#pragma once

#include <algorithm>
#include <cstdint>

#include "exec/core/philox.h"
#include "models/program/graph/attributes.h"

namespace meshwright::exec::cpu {

class Dropout {
 public:
  explicit Dropout(const Attributes& a)
      : key_{static_cast<std::uint32_t>(a.dropout_key),
             static_cast<std::uint32_t>(a.dropout_key >> 32)},
        threshold_(static_cast<std::uint32_t>(a.dropout * 0x1p32)),
        scale_(1 / (1 - a.dropout)) {}

  // Applies dropout to x and writes the result to y: `count` columns, from `column` on, of row
  // `row` of sequence `sequence`. Dropped elements become 0, and the others are divided by 1 -
  // dropout. y may be x. One Philox block has the random words of four columns.
  template <typename T>
  void apply(const T* x, T* y, std::int64_t count, std::int64_t sequence, std::int64_t row,
             std::int64_t column) const {
    const T scale = static_cast<T>(scale_);
    const std::int64_t end = column + count;
    for (std::int64_t first = column / 4 * 4; first < end; first += 4) {
      const PhiloxCounter bits =
          philox({static_cast<std::uint32_t>(first / 4), static_cast<std::uint32_t>(row),
                  static_cast<std::uint32_t>(sequence), static_cast<std::uint32_t>(sequence >> 32)},
                 key_);
      for (std::int64_t c = std::max(first, column); c < std::min(first + 4, end); ++c)
        y[c - column] = bits[c - first] < threshold_ ? T(0) : x[c - column] * scale;
    }
  }

 private:
  PhiloxKey key_;
  std::uint32_t threshold_;
  double scale_;
};

}  // namespace meshwright::exec::cpu
