// The backend that computes on one NVIDIA GPU. It owns memory and streams of the GPU, and runs
// every operation that has a kernel in the tables (tables.h).
#pragma once

#include <memory>
#include <string>

#include "exec/backends/backend.h"
#include "exec/backends/device_description.h"
#include "exec/core/stream_source.h"

namespace meshwright::exec {

struct CudaOptions {
  int device = 0;
  bool tf32 = false;            // fp32 matmuls on tensor cores, which round factors to tf32
  bool deterministic = false;   // chooses no algorithm by timing and no kernel with changing bits
  std::string folder;           // caches compiled kernels and choices of algorithms
  int left_to_collectives = 0;  // multiprocessors that matmuls do not use
};

class CudaBackend : public Backend, public StreamSource {};

// Makes the backend. Its device becomes the current one of the calling thread. Throws InputError if
// `device` is not below cuda_devices(), if the folder cannot be made, or if a first kernel fails on
// the device, as it does if this build has no machine code for it. In the last case, the message
// has the device's architecture and those of the build.
std::unique_ptr<CudaBackend> make_cuda_backend(const CudaOptions& options);

// Returns the number of GPUs, or 0 if there is no GPU or no driver.
int cuda_devices();

// Makes the device the current one of the calling thread, and returns its description. Throws
// InputError if `index` is not below cuda_devices().
DeviceDescription cuda_device(int index);

}  // namespace meshwright::exec
