#include "models/program/graph/published.h"

#include <utility>

#include "models/core/error.h"

namespace meshwright::program {

Shape shape_of_whole(const PublishedPart& part, const Shape& shape) {
  Shape whole = shape;
  const int rows = part.of_experts ? 1 : 0;
  whole[rows] = part.groups * part.group_rows;
  if (part.transposed && shape.rank > rows + 1) std::swap(whole[rows], whole[rows + 1]);
  return whole;
}

std::vector<ElementRun> runs_of(const PublishedPart& part, const Shape& shape) {
  const int at = part.of_experts ? 1 : 0;
  MESHWRIGHT_CHECK(shape[at] % part.groups == 0, "every group has as many rows of a part");
  const std::int64_t wholes = part.of_experts ? shape[0] : 1;
  const std::int64_t all_rows = part.groups * part.group_rows, rows = shape[at] / part.groups;
  const std::int64_t width = shape.elements() / wholes / shape[at];
  const bool together = part.step == 1 && !part.transposed;  // the rows of a group
  const std::int64_t run_rows = together ? rows : 1;
  std::vector<ElementRun> runs;
  for (std::int64_t of_part = 0, whole = 0; whole < wholes; ++whole)
    for (std::int64_t group = 0; group < part.groups; ++group)
      for (std::int64_t row = 0; row < rows; row += run_rows) {
        const std::int64_t place = group * part.group_rows + part.first + row * part.step;
        const std::int64_t begin = whole * all_rows * width;
        runs.push_back({of_part, begin + (part.transposed ? place : place * width),
                        run_rows * width, part.transposed ? all_rows : 1});
        of_part += run_rows * width;
      }
  return runs;
}

}  // namespace meshwright::program
