// Describes which elements of a tensor another tensor shows, and in which order. Operations such as
// Reshape, Transpose, Slice, Split, Expand, Squeeze and Unsqueeze make such views without copying.
// Element (i0, i1, ...) of a view is element `offset` + the sum of i * stride of the viewed tensor.
// A dimension may consist of several such indices, the last the fastest, because a reshape may join
// dimensions that a transposition moved apart.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace meshwright::architectures {

struct OnnxView {
  struct Index {
    std::int64_t size = 1, stride = 0;
    bool operator==(const Index&) const = default;
  };
  // No index has size 1, and neighbours in a dimension that one stride covers are one index.
  using Dimension = std::vector<Index>;
  std::int64_t offset = 0;
  std::vector<Dimension> dims;
  bool operator==(const OnnxView&) const = default;
};

// Returns the view of all elements of a tensor of these dimensions, in order.
OnnxView whole_view(const std::vector<std::int64_t>& dims);
std::vector<std::int64_t> dims_of(const OnnxView& view);
std::int64_t size_of(const OnnxView::Dimension& dimension);

// Returns the view with other dimensions and the same number of elements. Returns nothing if
// strides cannot express it.
std::optional<OnnxView> reshaped(const OnnxView& view, const std::vector<std::int64_t>& dims);
OnnxView transposed(const OnnxView& view, const std::vector<std::int64_t>& order);
// Returns the view of `count` indices of dimension `axis`, from `begin` on. Returns nothing if
// strides cannot express it.
std::optional<OnnxView> sliced(const OnnxView& view, std::size_t axis, std::int64_t begin,
                               std::int64_t count);
// Returns the view in which dimensions of size 1 are repeated to become `dims`. New dimensions are
// put before the others.
OnnxView expanded(const OnnxView& view, const std::vector<std::int64_t>& dims);

// Returns whether the view shows all of the tensor's `elements` elements in order, so that only its
// shape may differ.
bool is_in_order(const OnnxView& view, std::int64_t elements);
// Returns whether the view shows each of the tensor's `elements` elements once, in any order.
bool is_permutation(const OnnxView& view, std::int64_t elements);

}  // namespace meshwright::architectures
