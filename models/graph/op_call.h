// One operation with the types of its operands: all that its cost and its kernel depend on.
#pragma once

#include <span>

#include "models/graph/attributes.h"
#include "models/graph/op.h"
#include "models/graph/tensor_type.h"

namespace meshwright {

struct OpCall {
  Op op;
  const Attributes& attributes;
  std::span<const TensorType> inputs;
  std::span<const TensorType> outputs;
};

}  // namespace meshwright
