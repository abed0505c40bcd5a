// Matmuls of dropless experts (models/program/graph/experts.h), whose numbers of rows are in device
// memory. A library cannot compute them, because the host must know the sizes of its matmuls.
#pragma once

#include "exec/backends/cuda/kernels.h"

namespace meshwright::exec::cuda {

void run_counted_experts(const KernelCall& k);

}  // namespace meshwright::exec::cuda
