// Attention with values of another width than queries and keys (multi-head latent attention, whose
// values are narrower). The kernels of attention have one width for all heads, so values are padded
// with zeros to the width of the keys, and the results are narrowed.
#pragma once

#include "exec/backends/cuda/kernels.h"

namespace meshwright::exec::cuda {

// Runs `own`, the kernel of attention or of its gradient, on padded values. If `value_dim` is 0,
// values are as wide as keys, and `own` runs on the operands themselves.
void with_wide_values(const KernelCall& k, Kernel own);

}  // namespace meshwright::exec::cuda
