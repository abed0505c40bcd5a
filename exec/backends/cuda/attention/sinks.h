// Attention sinks: each head has one more score in every softmax, which has no value. The kernels
// of attention compute y and its log-sum-exp without sinks, and apply_sinks() then corrects both.
// From the corrected y and log-sum-exp the other gradients are computed as without sinks, and
// add_sink_gradients() computes those of the sinks.
#pragma once

#include "exec/backends/cuda/kernels.h"

namespace meshwright::exec::cuda {

// Corrects y[rows, heads * head_dim] and log_sums[batch * heads, length] for the operation's sinks,
// which are the input after the `tensors` inputs that attention reads.
void apply_sinks(const KernelCall& k, std::size_t tensors);

// Adds to the gradient of the sinks, if they are trained. After the `tensors` inputs that attention
// reads come y, the log-sum-exp, dy and the sinks. After their gradients comes that of the sinks.
void add_sink_gradients(const KernelCall& k, std::size_t tensors);

}  // namespace meshwright::exec::cuda
