// Computes the part of an ONNX graph that does not depend on the tokens, such as shapes, positions,
// masks and rotary angles. It is computed while the graph is read, for one batch size and sequence
// length.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/architectures/onnx/file.h"

namespace meshwright::architectures {

enum class KnownKind : std::uint8_t { real, integer, boolean };

// Holds values as fp64. Most operations round real results to fp32, as the graph would.
struct Known {
  OnnxDims dims;
  KnownKind kind = KnownKind::integer;
  std::vector<double> values;
};
using KnownPtr = std::shared_ptr<const Known>;

// Is the largest number of elements of a tensor that is computed while reading. Masks of 512 tokens
// have far fewer.
constexpr std::int64_t most_known = std::int64_t{1} << 23;

std::int64_t element_count(const OnnxDims& dims);
KnownKind kind_of(OnnxType type);
// Returns the kind of elements that a Cast to this TensorProto.DataType makes. Returns nothing for
// a type that cannot be read.
std::optional<KnownKind> kind_of_number(std::int64_t data_type);

// Computes an operation whose operands are all known. A null operand is an optional one that is
// absent. Returns nothing if the operation is not one that can be computed here. Throws an
// InputError that says what is wrong, to which the caller adds the node's name.
std::optional<std::vector<Known>> fold(const OnnxNode& node, int opset,
                                       std::span<const Known* const> inputs);

// Compute the two parts of fold(): elementwise operations with broadcasting, and all others, most
// of which move elements. They return nothing for operations that are not theirs.
std::optional<Known> fold_elements(const OnnxNode& node, std::span<const Known* const> inputs);
std::optional<std::vector<Known>> fold_moves(const OnnxNode& node, int opset,
                                             std::span<const Known* const> inputs);

// The functions from here on read the attributes and small operands of a node, also of nodes whose
// other operands are not known. operand() throws InputError if the operand is absent.
const Known& operand(std::span<const Known* const> inputs, std::size_t index);
std::int64_t integer_at(const Known& known, std::size_t index);  // clamped to +-2^62; a NaN is 0
OnnxDims integers_of(const Known& known);
// Returns the axis as 0 to rank - 1. A negative axis counts from the end. Throws InputError if
// there is no such axis.
std::size_t axis_of(std::int64_t axis, std::size_t rank);
// Returns the broadcast shape. Throws InputError if the shapes do not fit.
OnnxDims broadcast(const OnnxDims& a, const OnnxDims& b);
// Returns the shape that Reshape makes. In `wanted`, 0 keeps the dimension that `from` has there
// unless `allows_zero` is set, and -1 is what remains. Throws InputError if the numbers of elements
// differ.
OnnxDims reshape_dims(const OnnxDims& from, const OnnxDims& wanted, bool allows_zero);
// Returns the shape of the matrix that Flatten makes: the product of the dimensions before `axis`,
// and the product of the others.
OnnxDims flattened_dims(const OnnxDims& from, std::int64_t axis);
// Return the shapes that Squeeze and Unsqueeze of these axes make. Without axes, Squeeze removes
// all dimensions of size 1.
OnnxDims squeezed_dims(const OnnxDims& from, const OnnxDims* axes);
OnnxDims unsqueezed_dims(const OnnxDims& from, const OnnxDims& axes);
// Describes the indices begin, begin + step, ..., `count` of them, that a Slice takes of one axis.
// `step` is 1 or -1.
struct SliceRange {
  std::size_t axis = 0;
  std::int64_t begin = 0, count = 0, step = 1;
};
std::vector<SliceRange> slice_ranges(const OnnxDims& from, std::span<const Known* const> inputs);
// Returns the sizes of a Split's outputs along its axis, which has `size` elements. `sizes` is the
// node's second operand, or null. Throws InputError if the sizes do not add up to `size`.
OnnxDims split_sizes(const OnnxNode& node, std::int64_t size, const Known* sizes);

}  // namespace meshwright::architectures
