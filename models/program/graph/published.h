// Describes matrices that are parameters of their own here, but parts of one tensor in published
// models: queries, keys and values, or the gate and the other half of a gated MLP.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/program/graph/tensor_type.h"

namespace meshwright::program {

// Says which rows of the published tensor `whole` are a parameter. `whole` has `groups` groups of
// `group_rows` rows. The parameter has the same number of rows from each group: every `step`-th,
// beginning with row `first` of the group.
struct PublishedPart {
  std::string whole;
  std::int64_t groups = 1, group_rows = 0, first = 0, step = 1;
  bool of_experts = false;  // the rule holds for each expert, the first dimension of both tensors
  bool transposed = false;  // rows of the parameter are along the last dimension of `whole`
  bool operator==(const PublishedPart&) const = default;
};

// Returns the shape of the published tensor that a parameter of shape `shape` is a part of.
Shape shape_of_whole(const PublishedPart& part, const Shape& shape);

// A run of `count` elements that are contiguous in the part from element `of_part` on. In the
// whole, they begin at element `of_whole` and are `step` elements apart.
struct ElementRun {
  std::int64_t of_part = 0, of_whole = 0, count = 0, step = 1;
};
std::vector<ElementRun> runs_of(const PublishedPart& part, const Shape& shape);

}  // namespace meshwright::program
