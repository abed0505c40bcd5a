// cuDNN's fused attention, through its graphs (NVIDIA's cudnn-frontend). It is available if the
// build found their headers and the program finds the library. may_be_cudnns() says which calls it
// may serve: 16-bit types, and heads of at most 128 elements, in multiples of 8, with a causal mask
// or none. Like this backend's kernels, it saves the log-sum-exp of the scores. Its backward
// kernels add to dQ in an order that changes from run to run.
#pragma once

#include <memory>

#include "exec/backends/cuda/attention/attention_library.h"

namespace meshwright::exec::cuda {

// Returns cuDNN's attention for the current device of the calling thread, or null if libcudnn.so.9
// cannot be loaded or does not start here.
std::unique_ptr<AttentionLibrary> make_cudnn_attention();

}  // namespace meshwright::exec::cuda
