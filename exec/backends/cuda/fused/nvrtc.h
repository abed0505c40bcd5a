// Compiles CUDA source to machine code by NVRTC, the toolkit's run-time compiler. That needs
// neither a device nor a driver.
#pragma once

#include <string>
#include <vector>

#include "exec/backends/cuda/device/kernel_cache.h"

namespace meshwright::exec::cuda {

std::string nvrtc_version();                     // such as "13.0"
std::vector<std::string> nvrtc_architectures();  // such as "sm_80"; all of this toolkit

struct Compiled {
  std::string cubin;
  std::string log;  // warnings
};
// Compiles the source. Throws InputError for an architecture that this toolkit does not have, and
// RunError if the source has errors, with the log, or if another call of NVRTC fails.
Compiled compile_cuda(const std::string& source, const std::string& architecture);

// Returns the cubin that compile_cuda() makes of the source, from the cache if it is there.
// Otherwise compiles the source and stores the cubin in the cache.
std::string cached_cubin(KernelCache& cache, const std::string& source,
                         const std::string& architecture);

}  // namespace meshwright::exec::cuda
