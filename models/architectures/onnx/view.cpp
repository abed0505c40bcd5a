#include "models/architectures/onnx/view.h"

#include <algorithm>

namespace meshwright::architectures {

namespace {

using Index = OnnxView::Index;

// Appends an index to a dimension, unless its size is 1. If one stride covers both the last index
// and the new one, they become one index.
void append_index(OnnxView::Dimension& to, Index index) {
  if (index.size == 1) return;
  if (!to.empty() && to.back().stride == index.size * index.stride) {
    to.back() = {to.back().size * index.size, index.stride};
    return;
  }
  to.push_back(index);
}

OnnxView::Dimension all_indices(const OnnxView& view) {
  OnnxView::Dimension all;
  for (const OnnxView::Dimension& dimension : view.dims)
    for (const Index& index : dimension) append_index(all, index);
  return all;
}

}  // namespace

std::int64_t size_of(const OnnxView::Dimension& dimension) {
  std::int64_t size = 1;
  for (const Index& index : dimension) size *= index.size;
  return size;
}

std::vector<std::int64_t> dims_of(const OnnxView& view) {
  std::vector<std::int64_t> dims;
  for (const OnnxView::Dimension& dimension : view.dims) dims.push_back(size_of(dimension));
  return dims;
}

OnnxView whole_view(const std::vector<std::int64_t>& dims) {
  OnnxView view;
  view.dims.resize(dims.size());
  std::int64_t stride = 1;
  for (std::size_t i = dims.size(); i-- > 0; stride *= dims[i])
    append_index(view.dims[i], {dims[i], stride});
  return view;
}

std::optional<OnnxView> reshaped(const OnnxView& view, const std::vector<std::int64_t>& dims) {
  OnnxView result;
  result.offset = view.offset;
  OnnxView::Dimension left = all_indices(view);
  std::reverse(left.begin(), left.end());  // the slowest is now the last and is taken first
  for (const std::int64_t dim : dims) {
    OnnxView::Dimension& to = result.dims.emplace_back();
    for (std::int64_t wanted = dim; wanted > 1;) {
      if (left.empty()) return std::nullopt;
      Index& next = left.back();
      if (next.size <= wanted) {
        if (wanted % next.size != 0) return std::nullopt;
        append_index(to, next);
        wanted /= next.size;
        left.pop_back();
      } else {
        if (next.size % wanted != 0) return std::nullopt;
        const std::int64_t rest = next.size / wanted;
        append_index(to, {wanted, next.stride * rest});
        next.size = rest;
        wanted = 1;
      }
    }
  }
  if (!left.empty()) return std::nullopt;
  return result;
}

OnnxView transposed(const OnnxView& view, const std::vector<std::int64_t>& order) {
  OnnxView result;
  result.offset = view.offset;
  for (const std::int64_t axis : order)
    result.dims.push_back(view.dims[static_cast<std::size_t>(axis)]);
  return result;
}

std::optional<OnnxView> sliced(const OnnxView& view, std::size_t axis, std::int64_t begin,
                               std::int64_t count) {
  OnnxView result = view;
  OnnxView::Dimension& dimension = result.dims[axis];
  if (begin == 0 && count == size_of(dimension)) return result;
  if (dimension.empty()) return std::nullopt;
  Index slowest = dimension.front();
  const std::int64_t inner = size_of(dimension) / slowest.size;
  if (begin % inner != 0 || count % inner != 0) return std::nullopt;
  result.offset += begin / inner * slowest.stride;
  slowest.size = count / inner;
  OnnxView::Dimension cut;
  append_index(cut, slowest);
  for (std::size_t i = 1; i < dimension.size(); ++i) append_index(cut, dimension[i]);
  dimension = std::move(cut);
  return result;
}

OnnxView expanded(const OnnxView& view, const std::vector<std::int64_t>& dims) {
  OnnxView result;
  result.offset = view.offset;
  const std::size_t added = dims.size() - view.dims.size();
  for (std::size_t i = 0; i < dims.size(); ++i) {
    OnnxView::Dimension dimension;
    if (i >= added) dimension = view.dims[i - added];
    if (size_of(dimension) == 1 && dims[i] > 1) dimension = {{dims[i], 0}};
    result.dims.push_back(std::move(dimension));
  }
  return result;
}

bool is_in_order(const OnnxView& view, std::int64_t elements) {
  if (view.offset != 0) return false;
  const OnnxView::Dimension all = all_indices(view);
  if (elements == 1) return all.empty();
  return all.size() == 1 && all[0] == Index{elements, 1};
}

bool is_permutation(const OnnxView& view, std::int64_t elements) {
  OnnxView::Dimension all = all_indices(view);
  std::ranges::sort(all, {}, &Index::stride);
  std::int64_t stride = 1;
  for (const Index& index : all) {
    if (index.stride != stride) return false;
    stride *= index.size;
  }
  return view.offset == 0 && stride == elements;
}

}  // namespace meshwright::architectures
