#include "exec/runtime/parameter_runs.h"

#include <algorithm>

#include "models/core/error.h"

namespace meshwright::exec {

namespace {

// `count` consecutive indices along one dimension.
struct Range {
  std::int64_t local = 0, global = 0, count = 0;
};

// Returns the ranges that this rank holds along dimension `dim`, in local order.
std::vector<Range> ranges_along(const Parameter& parameter, int dim, PartOfCut part_of_cut) {
  const int rank = part_of_cut.index, degree = part_of_cut.count;
  if (parameter.is_cut_by_experts && dim == 0)
    return {{0, part_of_cut.expert * parameter.shape[0], parameter.shape[0]}};
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

// Calls `visit` for the runs that it is given, in order. Runs that follow each other in both
// tensors become one.
class Merger {
 public:
  explicit Merger(const std::function<void(const ParameterRun&)>& visit) : visit_(visit) {}

  void add(const ParameterRun& run) {
    if (run.count <= 0) return;
    const bool follows = run.global < 0
                             ? last_.global < 0
                             : last_.global >= 0 && last_.global + last_.count == run.global;
    if (last_.count > 0 && follows) {
      last_.count += run.count;
      return;
    }
    finish();
    last_ = run;
  }
  void finish() {
    if (last_.count > 0) visit_(last_);
    last_.count = 0;
  }

 private:
  const std::function<void(const ParameterRun&)>& visit_;
  ParameterRun last_;
};

// Returns the index of the whole dimension that a local index stands for, or -1 for padding.
std::int64_t global_index(const std::vector<Range>& ranges, std::int64_t local,
                          std::int64_t published) {
  std::size_t i = 0;
  while (i + 1 < ranges.size() && local >= ranges[i + 1].local) ++i;
  const std::int64_t global = ranges[i].global + (local - ranges[i].local);
  return global < published ? global : -1;
}

}  // namespace

PartOfCut part_of(const Parameter& parameter, const Mesh& mesh, const Coordinates& rank) {
  const Degrees& degrees = mesh.degrees();
  PartOfCut part;
  if (parameter.is_cut) part.index = rank.tensor, part.count = degrees.tensor;
  if (parameter.is_cut_by_experts)
    part.expert = mesh.expert_index(rank), part.experts = degrees.expert;
  return part;
}

void visit_runs(const Parameter& parameter, PartOfCut part, std::int64_t begin, std::int64_t count,
                const std::function<void(const ParameterRun&)>& visit) {
  const Shape &local = parameter.shape, &global = parameter.global_shape;
  if (!parameter.is_cut && local.elements() == global.elements()) {
    if (count > 0) visit({begin, begin, count});
    return;
  }
  MESHWRIGHT_CHECK(local.rank >= 1 && local.rank == global.rank, "a parameter has dimensions");
  std::vector<std::vector<Range>> ranges;
  for (int dim = 0; dim < local.rank; ++dim) ranges.push_back(ranges_along(parameter, dim, part));
  const int last = local.rank - 1;
  const std::int64_t width = local[last], end = begin + count;
  Merger merger(visit);
  for (std::int64_t row = width > 0 ? begin / width : 0; row * width < end && count > 0; ++row) {
    std::int64_t global_row = 0, rest = row, stride = 1;
    for (int dim = last - 1; dim >= 0 && global_row >= 0; --dim) {
      const std::int64_t here = global_index(ranges[dim], rest % local[dim], global[dim]);
      global_row = here < 0 ? -1 : global_row + here * stride;
      rest /= local[dim];
      stride *= global[dim];
    }
    for (const Range& range : ranges.back()) {
      // Each range has first the requested elements that are published, and then the padding.
      const std::int64_t at = row * width + range.local;
      const std::int64_t from = std::clamp<std::int64_t>(begin - at, 0, range.count);
      const std::int64_t to = std::clamp<std::int64_t>(end - at, 0, range.count);
      const std::int64_t published =
          global_row < 0 ? 0 : std::clamp<std::int64_t>(global[last] - range.global, from, to);
      const std::int64_t padding = std::max(from, published);
      if (global_row >= 0)
        merger.add({at + from, global_row * global[last] + range.global + from, published - from});
      merger.add({at + padding, -1, to - padding});
    }
  }
  merger.finish();
}

std::vector<ParameterRun> runs_of(const Parameter& parameter, PartOfCut part) {
  std::vector<ParameterRun> runs;
  visit_runs(parameter, part, 0, parameter.shape.elements(),
             [&](const ParameterRun& run) { runs.push_back(run); });
  return runs;
}

WholePlaces places_of(const Parameter& parameter, PartOfCut part) {
  WholePlaces places;
  const Shape &local = parameter.shape, &global = parameter.global_shape;
  if (local.rank != global.rank) return places;  // whole, and written in other dimensions
  // Padding after all rows moves no element. Padding inside rows acts like another split.
  const bool shares_experts = parameter.is_cut_by_experts;
  int cut =
      parameter.is_cut && !(shares_experts && parameter.cut.dim == 0) ? parameter.cut.dim : -1;
  for (int dim = local.rank - 1; dim > 0; --dim)
    if (local[dim] != global[dim] && dim != cut) {
      MESHWRIGHT_CHECK(cut < 0, "a parameter is cut or padded in one dimension inside its rows");
      cut = dim;
    }
  if (shares_experts) places.first = part.expert * local[0] * (global.elements() / global[0]);
  if (cut < 0) return places;
  for (int dim = cut + 1; dim < local.rank; ++dim) places.inner *= local[dim];
  places.held = local[cut];
  places.whole = global[cut];
  const std::vector<Range> ranges = ranges_along(parameter, cut, part);
  places.segments = static_cast<int>(ranges.size());
  MESHWRIGHT_CHECK(places.segments <= WholePlaces::most_segments,
                   "as many segments as kernels look at");
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    places.begin[i] = ranges[i].local;
    places.shift[i] = ranges[i].global - ranges[i].local;
  }
  return places;
}

}  // namespace meshwright::exec
