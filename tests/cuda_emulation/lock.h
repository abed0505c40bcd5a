// Lets only one host thread at a time be inside the emulated device.
#pragma once

#include <mutex>

#include "tests/cuda_emulation/cuda_runtime.h"

namespace emulated {

std::recursive_mutex& mutex();

struct Lock : std::lock_guard<std::recursive_mutex> {
  Lock() : std::lock_guard<std::recursive_mutex>(mutex()) {}
};

// Sets the error that cudaGetLastError() returns next, and returns it.
cudaError_t failed(cudaError_t error);

}  // namespace emulated
