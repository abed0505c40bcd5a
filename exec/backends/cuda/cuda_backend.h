// The backend of one GPU: its memory, its streams, and every operation of the tables of kernels.
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
  bool deterministic = false;   // chooses no algorithm by timing: the same bits in every run
  std::string folder;           // for compiled kernels and choices of algorithms
  int left_to_collectives = 0;  // multiprocessors that matmuls leave free
};

class CudaBackend : public Backend, public StreamSource {};

// Makes the backend. Its device becomes the process's current one. Throws InputError if there is no
// such device, or if this build has no machine code for it. The message then has the device's
// architecture and those of the build.
std::unique_ptr<CudaBackend> make_cuda_backend(const CudaOptions& options);

// Returns the number of GPUs, 0 without a GPU or its driver.
int cuda_devices();

DeviceDescription cuda_device(int index);  // throws InputError if there is no such device

}  // namespace meshwright::exec
