#include "models/graph/published.h"

#include "models/core/error.h"

namespace meshwright {

Shape shape_of_whole(const PublishedPart& part, const Shape& shape) {
  Shape whole = shape;
  whole[0] = part.groups * part.group_rows;
  return whole;
}

std::vector<ElementRun> runs_of(const PublishedPart& part, const Shape& shape) {
  MESHWRIGHT_CHECK(shape[0] % part.groups == 0, "every group has as many rows of a part");
  const std::int64_t width = shape.elements() / shape[0], rows = shape[0] / part.groups;
  std::vector<ElementRun> runs;
  for (std::int64_t group = 0; group < part.groups; ++group)
    runs.push_back(
        {group * rows * width, (group * part.group_rows + part.first) * width, rows * width});
  return runs;
}

}  // namespace meshwright
