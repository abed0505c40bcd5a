// Heads whose values are narrower than their queries and keys (multi-head latent attention). The
// kernels of attention are for heads of one width: values are made as wide with zeros, and what
// comes out is narrowed.
#pragma once

#include "exec/backends/cuda/kernels.h"

namespace meshwright::cuda {

// Runs attention or its gradient, `own`, on widened values; as it is where there is nothing to
// widen.
void with_wide_values(const KernelCall& k, Kernel own);

}  // namespace meshwright::cuda
