#include <algorithm>

#include "models/architectures/onnx/trace.h"
#include "models/core/error.h"

namespace meshwright::architectures {

OnnxValue OnnxTracer::with_view(const OnnxValue& value, OnnxView view) const {
  OnnxValue result = value;
  result.view = std::move(view);
  result.dims = dims_of(result.view);
  return result;
}

OnnxValue OnnxTracer::reshaped_to(const OnnxValue& value, const OnnxDims& dims) const {
  std::optional<OnnxView> view = reshaped(value.view, dims);
  if (!view) throw InputError("a reshape that joins what lies apart is not known");
  OnnxValue result = with_view(value, std::move(*view));
  result.dims = dims;
  return result;
}

OnnxValue OnnxTracer::slice_of(const OnnxValue& value, std::size_t axis, std::int64_t begin,
                               std::int64_t count) const {
  std::optional<OnnxView> view = sliced(value.view, axis, begin, count);
  if (!view || count < 1) throw InputError("this slice of a reordered tensor is not known");
  return with_view(value, std::move(*view));
}

// Returns the value at one index of an axis. A scalar index removes the axis, and an index of shape
// [1] keeps it.
OnnxValue OnnxTracer::one_of(const OnnxNode& node, const OnnxValue& value,
                             const Known& index) const {
  const std::size_t axis = axis_of(node.integer("axis", 0), value.dims.size());
  std::int64_t at = integer_at(index, 0);
  if (at < 0) at += value.dims[axis];
  if (at < 0 || at >= value.dims[axis]) throw InputError("gathers what is not there");
  const OnnxValue one = slice_of(value, axis, at, 1);
  OnnxDims dims = one.dims;
  if (index.dims.empty()) dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
  return reshaped_to(one, dims);
}

std::optional<OnnxTracer::Values> OnnxTracer::viewed(const OnnxNode& node, Values& inputs) {
  const std::string& op = node.op;
  const OnnxValue& x = inputs[0];
  if (!x.is_traced()) return std::nullopt;
  std::vector<KnownPtr> kept;
  std::vector<const Known*> operands;
  for (const OnnxValue& input : inputs) {
    kept.push_back(input.is_weight() ? nullptr : input.known);
    operands.push_back(kept.back().get());
  }
  const auto axes = [&]() -> OnnxDims {
    if (operands.size() > 1 && operands[1] != nullptr) return integers_of(*operands[1]);
    const OnnxDims* given = node.integers("axes");
    return given != nullptr ? *given : OnnxDims{};
  };
  if (op == "Identity") return Values{x};
  if (op == "Cast") {
    const std::optional<KnownKind> kind = kind_of_number(node.integer("to", 0));
    if (kind != x.kind) throw InputError("a cast of what depends on the tokens is not known");
    return Values{x};
  }
  if (op == "Dropout") {
    if (operands.size() > 2 && operands[2] != nullptr && integer_at(*operands[2], 0) != 0)
      throw InputError("drops elements; export in evaluation mode (model.eval())");
    return Values{x};
  }
  if (op == "Reshape")
    return Values{reshaped_to(x, reshape_dims(x.dims, integers_of(operand(operands, 1)),
                                              node.integer("allowzero", 0) != 0))};
  if (op == "Flatten")
    return Values{reshaped_to(x, flattened_dims(x.dims, node.integer("axis", 1)))};
  if (op == "Unsqueeze") return Values{reshaped_to(x, unsqueezed_dims(x.dims, axes()))};
  if (op == "Squeeze") {
    const OnnxDims given = axes();
    return Values{reshaped_to(x, squeezed_dims(x.dims, given.empty() ? nullptr : &given))};
  }
  if (op == "Transpose") {
    OnnxDims order;
    if (const OnnxDims* given = node.integers("perm"))
      for (const std::int64_t axis : *given)
        order.push_back(static_cast<std::int64_t>(axis_of(axis, x.dims.size())));
    else
      for (std::size_t i = x.dims.size(); i-- > 0;) order.push_back(static_cast<std::int64_t>(i));
    OnnxDims sorted = order;
    std::ranges::sort(sorted);
    for (std::size_t i = 0; i < sorted.size(); ++i)
      if (sorted[i] != static_cast<std::int64_t>(i)) sorted.clear();
    if (sorted.size() != x.dims.size()) throw InputError("does not order each dimension once");
    return Values{with_view(x, transposed(x.view, order))};
  }
  if (op == "Expand") {
    const OnnxDims dims = broadcast(x.dims, integers_of(operand(operands, 1)));
    if (element_count(dims) > most_known * 16) throw InputError("expands to too many elements");
    return Values{with_view(x, expanded(x.view, dims))};
  }
  if (op == "Slice") {
    OnnxValue result = x;
    for (const SliceRange& range : slice_ranges(x.dims, operands)) {
      if (range.step != 1) throw InputError("a slice in reverse order is not known");
      result = slice_of(result, range.axis, range.begin, range.count);
    }
    return Values{result};
  }
  if (op == "Split") {
    const std::size_t axis = axis_of(node.integer("axis", 0), x.dims.size());
    Values parts;
    std::int64_t begin = 0;
    for (const std::int64_t size :
         split_sizes(node, x.dims[axis], operands.size() > 1 ? operands[1] : nullptr)) {
      parts.push_back(slice_of(x, axis, begin, size));
      begin += size;
    }
    return parts;
  }
  if (op == "Gather" && operands.size() > 1 && operands[1] != nullptr &&
      operands[1]->values.size() == 1)
    return Values{one_of(node, x, *operands[1])};
  return std::nullopt;
}

}  // namespace meshwright::architectures
