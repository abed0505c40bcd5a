// The toolkit's run-time compiler, from CUDA source to machine code. It needs neither a device nor
// a driver.
#pragma once

#include <string>
#include <vector>

#include "exec/backends/cuda/device/kernel_cache.h"

namespace meshwright::exec::cuda {

std::string nvrtc_version();                     // "13.0"
std::vector<std::string> nvrtc_architectures();  // "sm_80", ... as this toolkit has them

struct Compiled {
  std::string cubin;
  std::string log;  // warnings
};
// Compiles the source. Throws InputError for an architecture that this toolkit does not have, and
// RunError with the log if the source has errors or the compiler failed.
Compiled compile_cuda(const std::string& source, const std::string& architecture);

// Returns the cubin that compile_cuda() makes of the source. Takes it from the cache, or stores it
// there.
std::string cached_cubin(KernelCache& cache, const std::string& source,
                         const std::string& architecture);

}  // namespace meshwright::exec::cuda
