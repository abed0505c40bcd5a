// Cross-entropy and its gradient at once, where nothing comes between them.
#pragma once

#include "exec/backends/cuda/kernels.h"

namespace meshwright::cuda {

// `loss`: a cross_entropy; `gradient`: the cross_entropy_grad of the same logits, which may take
// their place. As one after the other, but the logits are read once: a row of them stays in a
// block's shared memory. False: nothing was issued, since a row is too long for that or too short
// to be worth it, or the two do not belong together.
bool cross_entropy_with_grad(const KernelCall& loss, const KernelCall& gradient);

}  // namespace meshwright::cuda
