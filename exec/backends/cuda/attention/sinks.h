// Sinks: each head has one score more in every softmax, which has no value. Of what attention makes
// without them, y and its log-sum-exp, both with them; then the gradients of the other operands are
// made as without. In the gradient, that of the sinks.
#pragma once

#include "exec/backends/cuda/kernels.h"

namespace meshwright::cuda {

// y[rows, heads * head_dim] and log_sums[batch * heads, length] of the operation's sinks, which
// follow the `tensors` that it reads.
void apply_sinks(const KernelCall& k, std::size_t tensors);

// (+)sinks of the gradient, where they are trained. After the `tensors` that attention reads come
// y, the log-sum-exp, dy and the sinks; after their gradients comes that of the sinks.
void add_sink_gradients(const KernelCall& k, std::size_t tensors);

}  // namespace meshwright::cuda
