// Expresses linear layers as matmuls.
#pragma once

#include "exec/backends/cuda/products/products.h"
#include "models/program/graph/op_call.h"

namespace meshwright::exec::cuda {

// Returns the matmul of `linear` or of one of its gradients, with the bias as its epilogue if there
// is one. `adds` is set if the matmul is added to the contents of the output.
ProductForm form_of(const OpCall& call);

}  // namespace meshwright::exec::cuda
