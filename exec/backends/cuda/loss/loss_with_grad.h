// Computes cross-entropy and its gradient in one kernel, for a fusion in which one directly follows
// the other.
#pragma once

#include "exec/backends/cuda/kernels.h"

namespace meshwright::exec::cuda {

// Issues `loss`, a cross_entropy, and `gradient`, the cross_entropy_grad of the same logits, which
// may overwrite the logits. Logits are read only once, because a row stays in a block's shared
// memory. Returns false, with nothing issued, if a row is too long for shared memory, too short to
// be worth it or not aligned to 16 bytes, or if the two calls do not belong together.
bool cross_entropy_with_grad(const KernelCall& loss, const KernelCall& gradient);

}  // namespace meshwright::exec::cuda
