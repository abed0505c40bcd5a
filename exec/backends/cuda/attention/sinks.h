// Attention sinks: each head has one more score in every softmax, which has no value. The kernels
// of attention compute y and its log-sum-exp without sinks, and apply_sinks() then corrects both.
// With the corrected y and log-sum-exp, the other gradients are computed as if there were no sinks.
// add_sink_gradients() computes those of the sinks.
#pragma once

#include "exec/backends/cuda/kernels.h"

namespace meshwright::exec::cuda {

// Corrects y[rows, heads * head_dim] and log_sums[batch * heads, length] for the operation's sinks,
// which are the input after the `tensors` inputs that attention reads.
void apply_sinks(const KernelCall& k, std::size_t tensors);

// Adds to the gradient of the sinks, or does nothing if they are not trained. The first `tensors`
// inputs are those that attention reads. The inputs after them are y, the log-sum-exp, dy and the
// sinks. The first `tensors` outputs are the gradients of what attention reads, and the next one is
// that of the sinks.
void add_sink_gradients(const KernelCall& k, std::size_t tensors);

}  // namespace meshwright::exec::cuda
