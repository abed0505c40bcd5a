// The blocks of scores that attention computes at a time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "models/program/graph/attributes.h"

namespace meshwright::exec::cpu {

constexpr std::int64_t tile_length = 128;

// A block of scores: query rows [i0, i0 + rows) against keys [j0, j0 + columns) of one sequence.
struct Tile {
  std::int64_t i0 = 0, rows = 0, j0 = 0, columns = 0;
  // Numbers to add to a query row and to a key index to get positions in the sequence. They differ
  // from 0 only if ranks share sequences (context parallelism).
  std::int64_t query_shift = 0, key_shift = 0;
  // Returns how much further queries are shifted than keys: query_shift - key_shift.
  std::int64_t ahead() const { return query_shift - key_shift; }
  // Returns how many columns of row i (counted in the tile) the causal mask lets through, from the
  // first on. Without a causal mask, returns all columns.
  std::int64_t visible(const Attributes& a, std::int64_t i) const {
    return a.causal ? std::clamp<std::int64_t>(i0 + i + ahead() + 1 - j0, 0, columns) : columns;
  }
};

}  // namespace meshwright::exec::cpu
