// cuDNN's fused attention, through its graphs (NVIDIA's cudnn-frontend), where the build found
// their headers and the program its library: 16 bits, heads of a multiple of 8 numbers up to 128,
// all tokens or those before, the log-sum-exp of the scores as ours. Its backward kernels add to dQ
// in an order that changes from run to run.
#pragma once

#include <memory>

#include "exec/backends/cuda/attention/attention_library.h"

namespace meshwright::cuda {

// Returns cuDNN's attention for the process's current device, or null if libcudnn.so.9 cannot be
// loaded or does not start here.
std::unique_ptr<AttentionLibrary> make_cudnn_attention();

}  // namespace meshwright::cuda
