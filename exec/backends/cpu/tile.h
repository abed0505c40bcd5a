// The blocks in which attention computes scores.
#pragma once

#include <algorithm>
#include <cstdint>

#include "models/program/graph/attributes.h"

namespace meshwright::cpu {

constexpr std::int64_t tile_length = 128;

// The scores of query rows [i0, i0 + rows) against keys [j0, j0 + columns) of one sequence.
struct Tile {
  std::int64_t i0 = 0, rows = 0, j0 = 0, columns = 0;
  // What is added to a row to get its place in the sequence, where ranks share sequences.
  std::int64_t query_shift = 0, key_shift = 0;
  // How much the queries' places are ahead of their rows, less the keys'.
  std::int64_t ahead() const { return query_shift - key_shift; }
  // Columns of row i (counted in the tile) that the mask lets through.
  std::int64_t visible(const Attributes& a, std::int64_t i) const {
    return a.causal ? std::clamp<std::int64_t>(i0 + i + ahead() + 1 - j0, 0, columns) : columns;
  }
};

}  // namespace meshwright::cpu
