// Sinks: each head has one score more in every softmax, which has no value. Of what attention makes
// without them, y and its log-sum-exp, both with them; then the gradients of the other operands are
// made as without. In the gradient, that of the sinks.
#pragma once

#include "exec/backends/cuda/kernels.h"

namespace meshwright::cuda {

// y[rows, heads * head_dim] and log_sums[batch * heads, length] of the operation's sinks.
void apply_sinks(const KernelCall& k);

// (+)sinks of attention_grad, where they are trained.
void add_sink_gradients(const KernelCall& k);

}  // namespace meshwright::cuda
