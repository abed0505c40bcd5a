// Turns errors of the CUDA runtime into RunError.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "models/core/error.h"

namespace meshwright::exec::cuda {

// Throws RunError, with the call's name and the runtime's message, if the call failed.
inline void check(cudaError_t result, const char* call) {
  if (result == cudaSuccess) return;
  throw RunError(std::string(call) + ": " + cudaGetErrorString(result));
}

}  // namespace meshwright::exec::cuda
