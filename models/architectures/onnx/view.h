// Which elements of a tensor another one shows, and in which order: what Reshape, Transpose, Slice,
// Split, Expand, Squeeze and Unsqueeze make, without copying. Element (i0, i1, ...) of a view is
// element offset + sum of i * stride of what it looks at; a dimension may be several such indices,
// the last the fastest, since a reshape may join what a transposition moved apart.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace meshwright {

struct OnnxView {
  struct Index {
    std::int64_t size = 1, stride = 0;
    bool operator==(const Index&) const = default;
  };
  using Dimension =
      std::vector<Index>;  // without indices of size 1; neighbours that run on are one
  std::int64_t offset = 0;
  std::vector<Dimension> dims;
  bool operator==(const OnnxView&) const = default;
};

// All of a tensor of these dimensions, in order.
OnnxView whole_view(const std::vector<std::int64_t>& dims);
std::vector<std::int64_t> dims_of(const OnnxView& view);
std::int64_t size_of(const OnnxView::Dimension& dimension);

// Nothing where a dimension would have to show what no stride reaches. `dims` has as many elements.
std::optional<OnnxView> reshaped(const OnnxView& view, const std::vector<std::int64_t>& dims);
OnnxView transposed(const OnnxView& view, const std::vector<std::int64_t>& order);
// `count` of dimension `axis` from `begin` on; nothing where that is no view.
std::optional<OnnxView> sliced(const OnnxView& view, std::size_t axis, std::int64_t begin,
                               std::int64_t count);
// Dimensions of 1 repeated, and new ones before the others.
OnnxView expanded(const OnnxView& view, const std::vector<std::int64_t>& dims);

// Each of `elements` elements, in order: nothing but another shape.
bool is_in_order(const OnnxView& view, std::int64_t elements);
// Each of `elements` elements once, in whatever order.
bool is_permutation(const OnnxView& view, std::int64_t elements);

}  // namespace meshwright
