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
  // Shifts from rows, and from keys, to positions in the sequence. They differ from 0 where ranks
  // share sequences.
  std::int64_t query_shift = 0, key_shift = 0;
  // Returns how far the queries' positions are ahead of their rows, less the keys' shift.
  std::int64_t ahead() const { return query_shift - key_shift; }
  // Columns of row i (counted in the tile) that the mask lets through.
  std::int64_t visible(const Attributes& a, std::int64_t i) const {
    return a.causal ? std::clamp<std::int64_t>(i0 + i + ahead() + 1 - j0, 0, columns) : columns;
  }
};

}  // namespace meshwright::cpu
