#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "models/architectures/onnx/known.h"
#include "models/core/error.h"

namespace meshwright::architectures {

namespace {

using Inputs = std::span<const Known* const>;

Known made(OnnxDims dims, KnownKind kind) {
  const std::int64_t count = element_count(dims);
  if (count > most_known)
    throw InputError("makes a constant of " + std::to_string(count) + " elements; at most " +
                     std::to_string(most_known) + " are computed");
  return {std::move(dims), kind, std::vector<double>(static_cast<std::size_t>(count))};
}

// Returns the row-major strides of `from` when it is broadcast to `to`. They are 0 along the
// dimensions that `from` lacks or has with size 1.
OnnxDims strides_within(const OnnxDims& from, const OnnxDims& to) {
  OnnxDims strides(to.size(), 0);
  std::int64_t stride = 1;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const std::size_t at = from.size() - 1 - i;
    strides[to.size() - 1 - i] = from[at] == 1 ? 0 : stride;
    stride *= from[at];
  }
  return strides;
}

// Calls body(element, places) for each element of `dims` in row-major order. places[k] is its
// initial value plus the sum of index[i] * strides[k][i].
template <class Body>
void walk(const OnnxDims& dims, const std::vector<OnnxDims>& strides, OnnxDims places, Body body) {
  const std::int64_t count = element_count(dims);
  OnnxDims index(dims.size(), 0);
  for (std::int64_t element = 0; element < count; ++element) {
    body(static_cast<std::size_t>(element), places);
    for (std::size_t i = dims.size(); i-- > 0;) {
      for (std::size_t k = 0; k < places.size(); ++k) places[k] += strides[k][i];
      if (++index[i] < dims[i]) break;
      for (std::size_t k = 0; k < places.size(); ++k) places[k] -= dims[i] * strides[k][i];
      index[i] = 0;
    }
  }
}

double rounded(double value, KnownKind kind) {
  if (kind == KnownKind::real) return static_cast<double>(static_cast<float>(value));
  return value;
}

constexpr double truth(bool holds) { return holds ? 1 : 0; }

struct Binary {
  std::string_view op;
  double (*apply)(double, double);
  bool compares = false;
};

double integer_quotient(double a, double b) { return b == 0 ? 0 : std::trunc(a / b); }

constexpr Binary binaries[] = {
    {"Add", [](double a, double b) { return a + b; }},
    {"Sub", [](double a, double b) { return a - b; }},
    {"Mul", [](double a, double b) { return a * b; }},
    {"Div", [](double a, double b) { return a / b; }},
    {"Pow", [](double a, double b) { return std::pow(a, b); }},
    {"Mod", [](double a, double b) { return b == 0 ? 0 : a - b * std::floor(a / b); }},
    {"Max", [](double a, double b) { return std::max(a, b); }},
    {"Min", [](double a, double b) { return std::min(a, b); }},
    {"Equal", [](double a, double b) { return truth(a == b); }, true},
    {"Less", [](double a, double b) { return truth(a < b); }, true},
    {"LessOrEqual", [](double a, double b) { return truth(a <= b); }, true},
    {"Greater", [](double a, double b) { return truth(a > b); }, true},
    {"GreaterOrEqual", [](double a, double b) { return truth(a >= b); }, true},
    {"And", [](double a, double b) { return truth(a != 0 && b != 0); }, true},
    {"Or", [](double a, double b) { return truth(a != 0 || b != 0); }, true},
};

struct Unary {
  std::string_view op;
  double (*apply)(double);
  bool tests = false;
};

constexpr Unary unaries[] = {
    {"Neg", [](double a) { return -a; }},
    {"Sqrt", [](double a) { return std::sqrt(a); }},
    {"Reciprocal", [](double a) { return 1 / a; }},
    {"Exp", [](double a) { return std::exp(a); }},
    {"Log", [](double a) { return std::log(a); }},
    {"Abs", [](double a) { return std::abs(a); }},
    {"Floor", [](double a) { return std::floor(a); }},
    {"Ceil", [](double a) { return std::ceil(a); }},
    {"Cos", [](double a) { return std::cos(a); }},
    {"Sin", [](double a) { return std::sin(a); }},
    {"Not", [](double a) { return truth(a == 0); }, true},
    {"IsNaN", [](double a) { return truth(a != a); }, true},
};

Known fold_binary(const Binary& row, const Known& a, const Known& b) {
  const KnownKind kind = row.compares ? KnownKind::boolean : a.kind;
  Known result = made(broadcast(a.dims, b.dims), kind);
  const bool divides_integers = row.op == "Div" && a.kind == KnownKind::integer;
  walk(result.dims, {strides_within(a.dims, result.dims), strides_within(b.dims, result.dims)},
       {0, 0}, [&](std::size_t i, const OnnxDims& at) {
         const double x = a.values[static_cast<std::size_t>(at[0])];
         const double y = b.values[static_cast<std::size_t>(at[1])];
         result.values[i] =
             rounded(divides_integers ? integer_quotient(x, y) : row.apply(x, y), kind);
       });
  return result;
}

Known fold_where(const Known& condition, const Known& a, const Known& b) {
  Known result = made(broadcast(condition.dims, broadcast(a.dims, b.dims)), a.kind);
  walk(result.dims,
       {strides_within(condition.dims, result.dims), strides_within(a.dims, result.dims),
        strides_within(b.dims, result.dims)},
       {0, 0, 0}, [&](std::size_t i, const OnnxDims& at) {
         result.values[i] = condition.values[static_cast<std::size_t>(at[0])] != 0
                                ? a.values[static_cast<std::size_t>(at[1])]
                                : b.values[static_cast<std::size_t>(at[2])];
       });
  return result;
}

Known fold_cast(const OnnxNode& node, const Known& from) {
  const std::optional<KnownKind> kind = kind_of_number(node.integer("to", 0));
  if (!kind) throw InputError("casts to an element type that is not known");
  Known result = from;
  result.kind = *kind;
  for (double& value : result.values) {
    if (*kind == KnownKind::boolean) value = truth(value != 0);
    if (*kind == KnownKind::integer) value = value == value ? std::trunc(value) : 0;
    value = rounded(value, *kind);
  }
  return result;
}

// Returns a tensor of shape `dims`. Its element at `index` is element number begin + the sum of
// index[i] * strides[i] of `from`.
Known gathered(const Known& from, OnnxDims dims, const OnnxDims& strides, std::int64_t begin) {
  Known result = made(std::move(dims), from.kind);
  walk(result.dims, {strides}, {begin}, [&](std::size_t i, const OnnxDims& at) {
    result.values[i] = from.values[static_cast<std::size_t>(at[0])];
  });
  return result;
}

OnnxDims all_strides(const OnnxDims& dims) {
  OnnxDims strides(dims.size(), 1);
  for (std::size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

Known fold_transpose(const OnnxNode& node, const Known& from) {
  const OnnxDims strides = all_strides(from.dims);
  OnnxDims order;
  if (const OnnxDims* given = node.integers("perm"))
    order = *given;
  else
    for (std::size_t i = from.dims.size(); i-- > 0;) order.push_back(static_cast<std::int64_t>(i));
  if (order.size() != from.dims.size()) throw InputError("orders another number of dimensions");
  OnnxDims dims, moved;
  for (const std::int64_t axis : order) {
    dims.push_back(from.dims[axis_of(axis, order.size())]);
    moved.push_back(strides[axis_of(axis, order.size())]);
  }
  if (element_count(dims) != element_count(from.dims)) throw InputError("orders a dimension twice");
  return gathered(from, dims, moved, 0);
}

Known fold_slice(const Known& from, Inputs inputs) {
  OnnxDims dims = from.dims, strides = all_strides(from.dims);
  const OnnxDims whole = strides;
  std::int64_t begin = 0;
  for (const SliceRange& range : slice_ranges(from.dims, inputs)) {
    begin += range.begin * whole[range.axis];
    dims[range.axis] = range.count;
    strides[range.axis] = whole[range.axis] * range.step;
  }
  return gathered(from, dims, strides, element_count(dims) == 0 ? 0 : begin);
}

Known fold_gather(const OnnxNode& node, const Known& from, const Known& indices) {
  const std::size_t axis = axis_of(node.integer("axis", 0), from.dims.size());
  OnnxDims dims(from.dims.begin(), from.dims.begin() + static_cast<std::ptrdiff_t>(axis));
  dims.insert(dims.end(), indices.dims.begin(), indices.dims.end());
  dims.insert(dims.end(), from.dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1,
              from.dims.end());
  Known result = made(dims, from.kind);
  const std::int64_t size = from.dims[axis], inner = all_strides(from.dims)[axis];
  const auto count = static_cast<std::int64_t>(indices.values.size());
  const std::int64_t outer = from.values.empty() ? 0 : element_count(from.dims) / (size * inner);
  std::size_t to = 0;
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t k = 0; k < count; ++k) {
      std::int64_t index = integer_at(indices, static_cast<std::size_t>(k));
      if (index < 0) index += size;
      if (index < 0 || index >= size)
        throw InputError("gathers number " + std::to_string(index) + " of " + std::to_string(size));
      for (std::int64_t i = 0; i < inner; ++i)
        result.values[to++] = from.values[static_cast<std::size_t>((o * size + index) * inner + i)];
    }
  return result;
}

// Returns the number of the first element that row `row` of the matrix `indices` names, in
// dimensions of these sizes and strides. Throws an InputError with the text `outside` if an index
// is out of range.
std::int64_t begin_at(const Known& indices, std::size_t row, const std::int64_t* sizes,
                      const std::int64_t* strides, const char* outside) {
  const auto depth = static_cast<std::size_t>(indices.dims.back());
  std::int64_t begin = 0;
  for (std::size_t d = 0; d < depth; ++d) {
    std::int64_t index = integer_at(indices, row * depth + d);
    if (index < 0) index += sizes[d];
    if (index < 0 || index >= sizes[d]) throw InputError(outside);
    begin += index * strides[d];
  }
  return begin;
}

// Computes GatherND: result[b..., i...] = from[b..., indices[b..., i...]...], where b... are the
// indices of the first `batch_dims` dimensions of both.
Known fold_gather_nd(const OnnxNode& node, const Known& from, const Known& indices) {
  const std::int64_t shared = node.integer("batch_dims", 0);
  const auto rank = static_cast<std::int64_t>(from.dims.size());
  const std::int64_t depth = indices.dims.empty() ? 0 : indices.dims.back();
  if (shared < 0 || depth < 1 || shared + depth > rank ||
      shared >= static_cast<std::int64_t>(indices.dims.size()))
    throw InputError("gathers along no dimension, or too many");
  const auto batch = from.dims.begin() + shared, inner = batch + depth;
  if (!std::equal(from.dims.begin(), batch, indices.dims.begin()))
    throw InputError("gathers with indices of another batch");
  OnnxDims dims(indices.dims.begin(), indices.dims.end() - 1);
  dims.insert(dims.end(), inner, from.dims.end());
  Known result = made(std::move(dims), from.kind);
  const std::int64_t run = element_count({inner, from.dims.end()});
  const std::int64_t whole = element_count({batch, from.dims.end()});
  const auto rows = static_cast<std::int64_t>(indices.values.size()) / depth;
  const std::int64_t each =
      rows / std::max<std::int64_t>(element_count({from.dims.begin(), batch}), 1);
  const OnnxDims strides = all_strides(from.dims);
  auto to = result.values.begin();
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t begin =
        begin_at(indices, static_cast<std::size_t>(row), from.dims.data() + shared,
                 strides.data() + shared, "gathers what is not there");
    to = std::copy_n(from.values.begin() + row / each * whole + begin, run, to);
  }
  return result;
}

// Computes GatherElements: along `axis`, each element of `indices` is replaced by the element of
// `from` that it names.
Known fold_gather_elements(const OnnxNode& node, const Known& from, const Known& indices) {
  const std::size_t axis = axis_of(node.integer("axis", 0), from.dims.size());
  if (indices.dims.size() != from.dims.size())
    throw InputError("gathers with indices of another rank");
  for (std::size_t d = 0; d < from.dims.size(); ++d)
    if (d != axis && indices.dims[d] > from.dims[d]) throw InputError("gathers what is not there");
  OnnxDims strides = all_strides(from.dims);
  const std::int64_t step = std::exchange(strides[axis], 0), size = from.dims[axis];
  Known result = made(indices.dims, from.kind);
  walk(result.dims, {strides}, {0}, [&](std::size_t i, const OnnxDims& at) {
    std::int64_t index = integer_at(indices, i);
    if (index < 0) index += size;
    if (index < 0 || index >= size) throw InputError("gathers what is not there");
    result.values[i] = from.values[static_cast<std::size_t>(at[0] + index * step)];
  });
  return result;
}

Known fold_concat(const OnnxNode& node, Inputs inputs) {
  const Known& first = operand(inputs, 0);
  const std::size_t axis = axis_of(node.integer("axis", 0), first.dims.size());
  OnnxDims dims = first.dims;
  dims[axis] = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Known& each = operand(inputs, i);
    OnnxDims same = each.dims;
    if (same.size() != dims.size()) throw InputError("joins tensors of different shapes");
    dims[axis] += same[axis];
    same[axis] = first.dims[axis];
    if (same != first.dims) throw InputError("joins tensors of different shapes");
  }
  Known result = made(dims, first.kind);
  const std::int64_t inner = all_strides(dims)[axis];
  std::int64_t outer = 1;
  for (std::size_t i = 0; i < axis; ++i) outer *= dims[i];
  auto to = result.values.begin();
  for (std::int64_t o = 0; o < outer; ++o)
    for (const Known* each : inputs) {
      const std::int64_t run = each->dims[axis] * inner;
      to = std::copy_n(each->values.begin() + o * run, run, to);
    }
  return result;
}

Known fold_range(const Known& begin, const Known& end, const Known& step) {
  if (begin.values.empty() || end.values.empty() || step.values.empty() || step.values[0] == 0)
    throw InputError("has no begin, no end or no step");
  const double from = begin.values[0];
  const double count = std::ceil((end.values[0] - from) / step.values[0]);
  if (!(count <= static_cast<double>(most_known))) throw InputError("is too long a range");
  Known result = made({static_cast<std::int64_t>(std::max(0.0, count))}, begin.kind);
  for (std::size_t i = 0; i < result.values.size(); ++i)
    result.values[i] = rounded(from + static_cast<double>(i) * step.values[0], begin.kind);
  return result;
}

Known fold_trilu(const OnnxNode& node, Inputs inputs) {
  Known result = operand(inputs, 0);
  const std::size_t rank = result.dims.size();
  if (rank < 2) throw InputError("is of a vector");
  const std::int64_t columns = result.dims[rank - 1], rows = result.dims[rank - 2];
  const std::int64_t diagonal =
      inputs.size() > 1 && inputs[1] != nullptr ? integer_at(*inputs[1], 0) : 0;
  const bool upper = node.integer("upper", 1) != 0;
  for (std::size_t i = 0; i < result.values.size(); ++i) {
    const std::int64_t column = static_cast<std::int64_t>(i) % columns;
    const std::int64_t row = static_cast<std::int64_t>(i) / columns % rows;
    if (upper ? column < row + diagonal : column > row + diagonal) result.values[i] = 0;
  }
  return result;
}

// Computes ScatterND, with which exporters fill in masks: updates[i...] replaces
// data[indices[i...]]. Throws InputError for a `reduction`, which would add up instead.
Known fold_scatter(const OnnxNode& node, Inputs inputs) {
  Known result = operand(inputs, 0);
  const Known &indices = operand(inputs, 1), &updates = operand(inputs, 2);
  const auto reduction = node.attributes.find("reduction");
  if (reduction != node.attributes.end() && reduction->second.s != "none")
    throw InputError("adds up what it scatters");
  const std::int64_t depth = indices.dims.empty() ? 0 : indices.dims.back();
  const auto rank = static_cast<std::int64_t>(result.dims.size());
  if (depth < 1 || depth > rank) throw InputError("scatters along no dimension, or too many");
  const OnnxDims strides = all_strides(result.dims);
  const auto run = static_cast<std::size_t>(strides[static_cast<std::size_t>(depth - 1)]);
  const std::size_t places = indices.values.size() / static_cast<std::size_t>(depth);
  if (updates.values.size() != places * run)
    throw InputError("scatters another number of elements");
  for (std::size_t place = 0; place < places; ++place) {
    const std::int64_t begin = begin_at(indices, place, result.dims.data(), strides.data(),
                                        "scatters to what is not there");
    std::copy_n(updates.values.begin() + static_cast<std::ptrdiff_t>(place * run), run,
                result.values.begin() + begin);
  }
  return result;
}

// Multiplies known matrices, [..., m, k] with [..., k, n]. Models compute rotary angles in this
// way.
Known fold_product(const Known& a, const Known& b) {
  if (a.dims.size() < 2 || b.dims.size() < 2) throw InputError("multiplies vectors");
  OnnxDims batch_a(a.dims.begin(), a.dims.end() - 2), batch_b(b.dims.begin(), b.dims.end() - 2);
  OnnxDims dims = broadcast(batch_a, batch_b);
  const OnnxDims batch = dims;
  const std::int64_t m = a.dims[a.dims.size() - 2], k = a.dims.back(), n = b.dims.back();
  if (b.dims[b.dims.size() - 2] != k) throw InputError("multiplies matrices that do not fit");
  dims.push_back(m);
  dims.push_back(n);
  Known result = made(dims, a.kind);
  if (element_count(dims) * std::max<std::int64_t>(k, 1) > most_known * 16)
    throw InputError("multiplies constants that are too large");
  walk(batch, {strides_within(batch_a, batch), strides_within(batch_b, batch)}, {0, 0},
       [&](std::size_t i, const OnnxDims& at) {
         for (std::int64_t row = 0; row < m; ++row)
           for (std::int64_t column = 0; column < n; ++column) {
             double sum = 0;
             for (std::int64_t each = 0; each < k; ++each)
               sum += a.values[static_cast<std::size_t>((at[0] * m + row) * k + each)] *
                      b.values[static_cast<std::size_t>((at[1] * k + each) * n + column)];
             result.values[(i * static_cast<std::size_t>(m) + static_cast<std::size_t>(row)) *
                               static_cast<std::size_t>(n) +
                           static_cast<std::size_t>(column)] = rounded(sum, a.kind);
           }
       });
  return result;
}

Known with_dims(const Known& from, OnnxDims dims) {
  Known result = from;
  result.dims = std::move(dims);
  return result;
}

Known fold_expand(const Known& from, const Known& shape) {
  const OnnxDims dims = broadcast(from.dims, integers_of(shape));
  return gathered(from, dims, strides_within(from.dims, dims), 0);
}

Known fold_constant_of_shape(const OnnxNode& node, const Known& shape) {
  const auto value = node.attributes.find("value");
  const bool given = value != node.attributes.end() && value->second.has_tensor;
  Known result = made(integers_of(shape), given ? kind_of(value->second.t.type) : KnownKind::real);
  if (given) {
    const std::vector<double> values = values_of({}, value->second.t);
    if (values.empty()) throw InputError("fills with no value");
    std::fill(result.values.begin(), result.values.end(), values[0]);
  }
  return result;
}

Known fold_constant(const OnnxNode& node) {
  const auto found = [&](std::string_view name) { return node.attributes.find(name); };
  const auto end = node.attributes.end();
  if (const auto at = found("value"); at != end && at->second.has_tensor)
    return {at->second.t.dims, kind_of(at->second.t.type), values_of({}, at->second.t)};
  if (const auto at = found("value_int"); at != end)
    return {{}, KnownKind::integer, {static_cast<double>(at->second.i)}};
  if (const auto at = found("value_float"); at != end) return {{}, KnownKind::real, {at->second.f}};
  if (const auto at = found("value_ints"); at != end) {
    const OnnxDims& ints = at->second.ints;
    return {
        {static_cast<std::int64_t>(ints.size())}, KnownKind::integer, {ints.begin(), ints.end()}};
  }
  if (const auto at = found("value_floats"); at != end)
    return {
        {static_cast<std::int64_t>(at->second.floats.size())}, KnownKind::real, at->second.floats};
  throw InputError("is a constant without a value that is read");
}

std::vector<Known> fold_split(const OnnxNode& node, const Known& from, const Known* sizes) {
  const std::size_t axis = axis_of(node.integer("axis", 0), from.dims.size());
  const OnnxDims strides = all_strides(from.dims);
  std::vector<Known> parts;
  std::int64_t begin = 0;
  for (const std::int64_t size : split_sizes(node, from.dims[axis], sizes)) {
    OnnxDims dims = from.dims;
    dims[axis] = size;
    parts.push_back(gathered(from, dims, strides, size == 0 ? 0 : begin * strides[axis]));
    begin += size;
  }
  return parts;
}

Known fold_running_sum(const OnnxNode& node, const Known& from, const Known& axis_number) {
  if (node.integer("exclusive", 0) != 0 || node.integer("reverse", 0) != 0)
    throw InputError("adds up in an order that is not known");
  const std::size_t axis = axis_of(integer_at(axis_number, 0), from.dims.size());
  const auto inner = static_cast<std::size_t>(all_strides(from.dims)[axis]);
  const auto size = static_cast<std::size_t>(from.dims[axis]);
  Known result = from;
  for (std::size_t i = 0; i < result.values.size(); ++i)
    if (i / inner % size > 0) result.values[i] += result.values[i - inner];
  return result;
}

OnnxDims axes_of(const OnnxNode& node, Inputs inputs) {
  if (inputs.size() > 1 && inputs[1] != nullptr) return integers_of(*inputs[1]);
  const OnnxDims* given = node.integers("axes");
  return given != nullptr ? *given : OnnxDims{};
}

}  // namespace

std::optional<Known> fold_elements(const OnnxNode& node, Inputs inputs) {
  for (const Binary& row : binaries)
    if (row.op == node.op) return fold_binary(row, operand(inputs, 0), operand(inputs, 1));
  for (const Unary& row : unaries) {
    if (row.op != node.op) continue;
    Known result = operand(inputs, 0);
    if (row.tests) result.kind = KnownKind::boolean;
    for (double& value : result.values) value = rounded(row.apply(value), result.kind);
    return result;
  }
  if (node.op == "Where")
    return fold_where(operand(inputs, 0), operand(inputs, 1), operand(inputs, 2));
  if (node.op == "Cast") return fold_cast(node, operand(inputs, 0));
  return std::nullopt;
}

std::optional<std::vector<Known>> fold_moves(const OnnxNode& node, int, Inputs inputs) {
  const std::string& op = node.op;
  const auto one = [](Known known) {
    std::vector<Known> all;
    all.push_back(std::move(known));
    return all;
  };
  if (op == "Constant") return one(fold_constant(node));
  if (op == "ConstantOfShape") return one(fold_constant_of_shape(node, operand(inputs, 0)));
  if (op == "Concat") return one(fold_concat(node, inputs));
  if (op == "Range")
    return one(fold_range(operand(inputs, 0), operand(inputs, 1), operand(inputs, 2)));
  if (op == "MatMul") return one(fold_product(operand(inputs, 0), operand(inputs, 1)));
  if (op == "Identity") return one(operand(inputs, 0));
  const Known* from = inputs.empty() ? nullptr : inputs[0];
  if (from == nullptr) return std::nullopt;
  if (op == "Transpose") return one(fold_transpose(node, *from));
  if (op == "Slice") return one(fold_slice(*from, inputs));
  if (op == "Gather") return one(fold_gather(node, *from, operand(inputs, 1)));
  if (op == "GatherND") return one(fold_gather_nd(node, *from, operand(inputs, 1)));
  if (op == "GatherElements") return one(fold_gather_elements(node, *from, operand(inputs, 1)));
  if (op == "Flatten")
    return one(with_dims(*from, flattened_dims(from->dims, node.integer("axis", 1))));
  if (op == "Trilu") return one(fold_trilu(node, inputs));
  if (op == "Expand") return one(fold_expand(*from, operand(inputs, 1)));
  if (op == "ScatterND") return one(fold_scatter(node, inputs));
  if (op == "CumSum") return one(fold_running_sum(node, *from, operand(inputs, 1)));
  if (op == "Split") return fold_split(node, *from, inputs.size() > 1 ? inputs[1] : nullptr);
  if (op == "Reshape")
    return one(with_dims(*from, reshape_dims(from->dims, integers_of(operand(inputs, 1)),
                                             node.integer("allowzero", 0) != 0)));
  const OnnxDims axes = axes_of(node, inputs);
  if (op == "Unsqueeze") return one(with_dims(*from, unsqueezed_dims(from->dims, axes)));
  if (op == "Squeeze")
    return one(with_dims(*from, squeezed_dims(from->dims, axes.empty() ? nullptr : &axes)));
  return std::nullopt;
}

std::optional<std::vector<Known>> fold(const OnnxNode& node, int opset, Inputs inputs) {
  if (std::optional<Known> known = fold_elements(node, inputs))
    return std::vector<Known>{std::move(*known)};
  return fold_moves(node, opset, inputs);
}

}  // namespace meshwright::architectures
