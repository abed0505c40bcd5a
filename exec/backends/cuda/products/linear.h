// Linear layers as matmuls.
#pragma once

#include "exec/backends/cuda/products/products.h"
#include "models/program/graph/op_call.h"

namespace meshwright::exec::cuda {

// Returns the matmul of `linear` or of one of its gradients. A third input is a bias. `adds` is set
// as in the operation.
ProductForm form_of(const OpCall& call);

}  // namespace meshwright::exec::cuda
