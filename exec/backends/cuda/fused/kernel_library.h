// Loads machine code that was compiled at run time onto the device. It does so by the CUDA runtime,
// so that the driver's library need not be linked.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <string>
#include <vector>

namespace meshwright::exec::cuda {

class KernelLibrary {
 public:
  explicit KernelLibrary(const std::string& cubin);
  ~KernelLibrary();
  KernelLibrary(const KernelLibrary&) = delete;
  KernelLibrary& operator=(const KernelLibrary&) = delete;

  // Returns the kernel of this name, which lives as long as the library. Throws RunError if there
  // is none.
  cudaKernel_t kernel(const std::string& name) const;

 private:
  cudaLibrary_t library_ = nullptr;
};

// Lets the kernel's blocks have `bytes` of dynamic shared memory.
void allow_shared_bytes(cudaKernel_t kernel, std::int64_t bytes);

// Launches the kernel on `blocks` blocks of `threads` threads, unless `blocks` is 0. `arguments`
// has the address of the value of each argument. allow_shared_bytes() must have allowed
// `shared_bytes`.
void launch(cudaKernel_t kernel, std::int64_t blocks, int threads, std::int64_t shared_bytes,
            std::vector<void*>& arguments, cudaStream_t stream);

}  // namespace meshwright::exec::cuda
