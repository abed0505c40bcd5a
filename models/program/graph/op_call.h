// One operation with the types of its operands: all that its cost and its kernel depend on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "models/program/graph/attributes.h"
#include "models/program/graph/op.h"
#include "models/program/graph/tensor_type.h"

namespace meshwright {

struct OpCall {
  Op op;
  const Attributes& attributes;
  std::span<const TensorType> inputs;
  std::span<const TensorType> outputs;
  // Bit i: outputs[i], to which the operation adds, holds nothing yet and is written instead. Of
  // what can_overwrite() allows.
  std::uint32_t overwrites = 0;

  bool overwrites_output(std::size_t i) const { return (overwrites >> i & 1U) != 0; }
};

// Whether the operation can write this output, the gradient of a parameter, instead of adding to
// it. Of a fusion's: where the first step that adds to it can.
bool can_overwrite(Op op, const Attributes& attributes, std::size_t output);

}  // namespace meshwright
