// Defines a call of an operation: the operation with its attributes and the types of its operands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "models/program/graph/attributes.h"
#include "models/program/graph/op.h"
#include "models/program/graph/tensor_type.h"

namespace meshwright::program {

struct OpCall {
  Op op;
  const Attributes& attributes;
  std::span<const TensorType> inputs;
  std::span<const TensorType> outputs;
  // Bit i is set if outputs[i], to which the operation adds, is unset so far and is therefore
  // overwritten. It may be set only if can_overwrite() allows it.
  std::uint32_t overwrites = 0;

  bool overwrites_output(std::size_t i) const { return (overwrites >> i & 1U) != 0; }
};

// Returns whether the operation can overwrite this output, a parameter gradient, instead of adding
// to it. A fusion can if the first of its steps that adds to the output can, unless this step is
// the matmul with which Fusion::Loop::product_first begins.
bool can_overwrite(Op op, const Attributes& attributes, std::size_t output);

}  // namespace meshwright::program
