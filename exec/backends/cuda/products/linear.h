// Linear layers as products.
#pragma once

#include "exec/backends/cuda/products/products.h"
#include "models/program/graph/op_call.h"

namespace meshwright::cuda {

// Of linear and its gradients; a third input is a bias. `adds` as the operation has it.
ProductForm form_of(const OpCall& call);

}  // namespace meshwright::cuda
