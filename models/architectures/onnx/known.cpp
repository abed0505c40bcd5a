#include "models/architectures/onnx/known.h"

#include <algorithm>

#include "models/core/error.h"

namespace meshwright::architectures {

namespace {

std::string text_of(const OnnxDims& dims) {
  std::string text = "[";
  for (const std::int64_t dim : dims) text += (text.size() > 1 ? "," : "") + std::to_string(dim);
  return text + "]";
}

}  // namespace

std::int64_t element_count(const OnnxDims& dims) {
  std::int64_t count = 1;
  constexpr std::int64_t most = std::int64_t{1} << 40;
  for (const std::int64_t dim : dims) {
    if (dim < 0 || (dim > 0 && count > most / dim))
      throw InputError("a shape of " + text_of(dims) + " is out of range");
    count *= dim;
  }
  return count;
}

KnownKind kind_of(OnnxType type) {
  if (type == OnnxType::boolean) return KnownKind::boolean;
  return is_real(type) ? KnownKind::real : KnownKind::integer;
}

std::optional<KnownKind> kind_of_number(std::int64_t data_type) {
  for (const OnnxType type :
       {OnnxType::f32, OnnxType::f16, OnnxType::bf16, OnnxType::f64, OnnxType::i64, OnnxType::i32,
        OnnxType::i8, OnnxType::u8, OnnxType::boolean})
    if (static_cast<std::int64_t>(type) == data_type) return kind_of(type);
  return std::nullopt;
}

const Known& operand(std::span<const Known* const> inputs, std::size_t index) {
  if (index >= inputs.size() || inputs[index] == nullptr)
    throw InputError("has no operand number " + std::to_string(index + 1));
  return *inputs[index];
}

std::int64_t integer_at(const Known& known, std::size_t index) {
  if (index >= known.values.size()) throw InputError("has too few numbers in an operand");
  constexpr double most = 4611686018427387904.0;  // 2^62
  const double value = known.values[index];
  return value != value ? 0 : static_cast<std::int64_t>(std::clamp(value, -most, most));
}

OnnxDims integers_of(const Known& known) {
  OnnxDims integers;
  for (std::size_t i = 0; i < known.values.size(); ++i) integers.push_back(integer_at(known, i));
  return integers;
}

std::size_t axis_of(std::int64_t axis, std::size_t rank) {
  const std::int64_t size = static_cast<std::int64_t>(rank);
  if (axis < -size || axis >= size)
    throw InputError("axis " + std::to_string(axis) + " is not one of " + std::to_string(rank) +
                     " dimensions");
  return static_cast<std::size_t>(axis < 0 ? axis + size : axis);
}

OnnxDims broadcast(const OnnxDims& a, const OnnxDims& b) {
  OnnxDims result(std::max(a.size(), b.size()), 1);
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const std::int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1)
      throw InputError("shapes " + text_of(a) + " and " + text_of(b) + " do not fit");
    result[result.size() - 1 - i] = x == 1 ? y : x;
  }
  return result;
}

OnnxDims reshape_dims(const OnnxDims& from, const OnnxDims& wanted, bool allows_zero) {
  OnnxDims result = wanted;
  std::optional<std::size_t> rest;
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (result[i] == 0 && !allows_zero) {
      if (i >= from.size()) throw InputError("keeps a dimension that is not there");
      result[i] = from[i];
    }
    if (result[i] != -1) continue;
    if (rest) throw InputError("two dimensions of a shape are -1");
    rest = i;
    result[i] = 1;
  }
  const std::int64_t given = element_count(result), all = element_count(from);
  if (rest && given > 0 && all % given == 0) result[*rest] = all / given;
  if (element_count(result) != all)
    throw InputError("a shape of " + text_of(from) + " cannot become " + text_of(wanted));
  return result;
}

OnnxDims flattened_dims(const OnnxDims& from, std::int64_t axis) {
  const auto rank = static_cast<std::int64_t>(from.size());
  if (axis < 0) axis += rank;
  if (axis < 0 || axis > rank) throw InputError("flattens at an axis that is not there");
  return {element_count({from.begin(), from.begin() + axis}),
          element_count({from.begin() + axis, from.end()})};
}

OnnxDims squeezed_dims(const OnnxDims& from, const OnnxDims* axes) {
  std::vector<bool> drop(from.size(), false);
  if (axes == nullptr)
    for (std::size_t i = 0; i < from.size(); ++i) drop[i] = from[i] == 1;
  else
    for (const std::int64_t axis : *axes) {
      const std::size_t i = axis_of(axis, from.size());
      if (from[i] != 1)
        throw InputError("a dimension of " + std::to_string(from[i]) + " is squeezed");
      drop[i] = true;
    }
  OnnxDims result;
  for (std::size_t i = 0; i < from.size(); ++i)
    if (!drop[i]) result.push_back(from[i]);
  return result;
}

OnnxDims unsqueezed_dims(const OnnxDims& from, const OnnxDims& axes) {
  const std::size_t rank = from.size() + axes.size();
  if (rank > 8) throw InputError("makes more than 8 dimensions");
  std::vector<bool> is_new(rank, false);
  for (const std::int64_t axis : axes) {
    const std::size_t i = axis_of(axis, rank);
    if (is_new[i]) throw InputError("names an axis twice");
    is_new[i] = true;
  }
  OnnxDims result;
  std::size_t next = 0;
  for (std::size_t i = 0; i < rank; ++i) result.push_back(is_new[i] ? 1 : from[next++]);
  return result;
}

std::vector<SliceRange> slice_ranges(const OnnxDims& from, std::span<const Known* const> inputs) {
  const OnnxDims begins = integers_of(operand(inputs, 1)), ends = integers_of(operand(inputs, 2));
  OnnxDims axes, steps;
  if (inputs.size() > 3 && inputs[3] != nullptr) axes = integers_of(*inputs[3]);
  if (inputs.size() > 4 && inputs[4] != nullptr) steps = integers_of(*inputs[4]);
  if (axes.empty())
    for (std::size_t i = 0; i < begins.size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  if (steps.empty()) steps.assign(begins.size(), 1);
  if (ends.size() != begins.size() || axes.size() != begins.size() || steps.size() != begins.size())
    throw InputError("has lists of different lengths");
  std::vector<SliceRange> ranges;
  for (std::size_t i = 0; i < begins.size(); ++i) {
    SliceRange range;
    range.axis = axis_of(axes[i], from.size());
    range.step = steps[i];
    if (range.step != 1 && range.step != -1)
      throw InputError("a step of " + std::to_string(range.step) +
                       " is not known; known: 1 and -1");
    const std::int64_t size = from[range.axis], low = range.step > 0 ? 0 : -1,
                       high = range.step > 0 ? size : size - 1;
    const auto place = [&](std::int64_t at) {
      return std::clamp(at < 0 ? at + size : at, low, high);
    };
    range.begin = place(begins[i]);
    // The end of a backward slice is exclusive: -1 means the last element, and values below -size
    // mean the place before the first.
    const std::int64_t end = place(ends[i]);
    range.count = std::max<std::int64_t>(0, (end - range.begin) * range.step);
    ranges.push_back(range);
  }
  return ranges;
}

OnnxDims split_sizes(const OnnxNode& node, std::int64_t size, const Known* sizes) {
  OnnxDims result;
  const auto outputs = static_cast<std::int64_t>(node.outputs.size());
  if (sizes != nullptr) {
    result = integers_of(*sizes);
  } else {
    const std::int64_t parts = node.integer("num_outputs", outputs);
    if (parts < 1 || parts > size) throw InputError("makes no parts, or too many");
    const std::int64_t each = (size + parts - 1) / parts;  // the last parts may be smaller
    for (std::int64_t i = 0; i < parts; ++i)
      result.push_back(std::min(each, size - std::min(size, i * each)));
  }
  std::int64_t sum = 0;
  for (const std::int64_t part : result) {
    if (part < 0 || part > size) throw InputError("has parts of a wrong size");
    sum += part;
  }
  if (sum != size || static_cast<std::int64_t>(result.size()) != outputs)
    throw InputError("has parts that do not make up the whole");
  return result;
}

}  // namespace meshwright::architectures
