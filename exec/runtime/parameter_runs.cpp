#include "exec/runtime/parameter_runs.h"

#include <algorithm>

#include "models/core/error.h"

namespace meshwright {

namespace {

// `count` consecutive indices along one dimension.
struct Range {
  std::int64_t local = 0, global = 0, count = 0;
};

// The ranges that this rank holds along dimension `dim`, in local order.
std::vector<Range> ranges_along(const Parameter& parameter, int dim, int rank, int degree) {
  if (!parameter.is_cut || parameter.cut.dim != dim) return {{0, 0, parameter.padded_shape[dim]}};
  std::vector<Range> ranges;
  std::int64_t local = 0, begin = 0;
  for (std::int64_t segment : parameter.cut.segments) {
    MESHWRIGHT_CHECK(segment % degree == 0, "segments of a cut parameter divide by the ranks");
    const std::int64_t part = segment / degree;
    ranges.push_back({local, begin + rank * part, part});
    local += part;
    begin += segment;
  }
  return ranges;
}

void append(std::vector<ParameterRun>& runs, const ParameterRun& run) {
  if (run.count == 0) return;
  if (!runs.empty()) {
    ParameterRun& last = runs.back();
    const bool follows = run.global < 0
                             ? last.global < 0
                             : last.global >= 0 && last.global + last.count == run.global;
    if (follows) {
      last.count += run.count;
      return;
    }
  }
  runs.push_back(run);
}

}  // namespace

std::vector<ParameterRun> runs_of(const Parameter& parameter, int tensor_rank, int tensor_degree) {
  const Shape &local = parameter.shape, &global = parameter.global_shape;
  MESHWRIGHT_CHECK(local.rank >= 1 && local.rank == global.rank, "a parameter has dimensions");
  std::vector<std::vector<std::int64_t>>
      global_index;  // per dimension but the last: by local index
  for (int dim = 0; dim + 1 < local.rank; ++dim) {
    global_index.emplace_back();
    for (const Range& range : ranges_along(parameter, dim, tensor_rank, tensor_degree))
      for (std::int64_t i = 0; i < range.count; ++i)
        global_index.back().push_back(range.global + i);
  }
  const int last = local.rank - 1;
  const std::vector<Range> columns = ranges_along(parameter, last, tensor_rank, tensor_degree);
  const std::int64_t rows = local[last] == 0 ? 0 : local.elements() / local[last];
  std::vector<ParameterRun> runs;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int64_t global_row = 0, rest = row, stride = 1;
    for (int dim = last - 1; dim >= 0; --dim) {
      const auto index = static_cast<std::size_t>(rest % local[dim]);
      rest /= local[dim];
      const std::int64_t here = global_index[static_cast<std::size_t>(dim)][index];
      if (here >= global[dim]) global_row = -1;
      if (global_row >= 0) global_row += here * stride;
      stride *= global[dim];
    }
    for (const Range& range : columns) {
      const std::int64_t at = row * local[last] + range.local;
      const std::int64_t inside =
          global_row < 0 ? 0
                         : std::clamp<std::int64_t>(global[last] - range.global, 0, range.count);
      append(runs, {at, global_row * global[last] + range.global, inside});
      append(runs, {at + inside, -1, range.count - inside});
    }
  }
  return runs;
}

}  // namespace meshwright
