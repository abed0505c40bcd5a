// Products of experts whose rows are as many as their counts say (models/program/graph/experts.h,
// dropless): counts are in device memory, so the libraries' products, whose sizes the host must
// know, cannot make them.
#pragma once

#include "exec/backends/cuda/kernels.h"

namespace meshwright::cuda {

void run_counted_experts(const KernelCall& k);

}  // namespace meshwright::cuda
