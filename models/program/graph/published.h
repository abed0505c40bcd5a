// Matrices that are published as one where meshwright has several: queries, keys and values, or a
// gate and what it multiplies.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/program/graph/tensor_type.h"

namespace meshwright {

// A parameter's rows in the published tensor `whole`, which is `groups` times `group_rows` rows: of
// each group as many as the parameter has for it, from `first` on, every `step`-th.
struct PublishedPart {
  std::string whole;
  std::int64_t groups = 1, group_rows = 0, first = 0, step = 1;
  bool of_experts = false;  // so of each expert, which the first dimension of both counts
  bool transposed = false;  // rows are the last dimension of the whole
  bool operator==(const PublishedPart&) const = default;
};

// Returns the shape of the published tensor that a parameter of shape `shape` is a part of.
Shape shape_of_whole(const PublishedPart& part, const Shape& shape);

// Elements that lie together in the part, and `step` from each other in the whole.
struct ElementRun {
  std::int64_t of_part = 0, of_whole = 0, count = 0, step = 1;
};
std::vector<ElementRun> runs_of(const PublishedPart& part, const Shape& shape);

}  // namespace meshwright
