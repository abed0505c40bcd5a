#include "exec/backends/cuda/fused/kernel_library.h"

#include "exec/backends/cuda/device/check.h"

namespace meshwright::exec::cuda {

KernelLibrary::KernelLibrary(const std::string& cubin) {
  check(cudaLibraryLoadData(&library_, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
        "cudaLibraryLoadData");
}

KernelLibrary::~KernelLibrary() { cudaLibraryUnload(library_); }

cudaKernel_t KernelLibrary::kernel(const std::string& name) const {
  cudaKernel_t found = nullptr;
  check(cudaLibraryGetKernel(&found, library_, name.c_str()), "cudaLibraryGetKernel");
  // Asking for the kernel's attributes brings its code to the device now. Loading it at the first
  // launch would disturb a capture.
  cudaFuncAttributes ignored{};
  check(cudaFuncGetAttributes(&ignored, reinterpret_cast<const void*>(found)),
        "cudaFuncGetAttributes");
  return found;
}

void allow_shared_bytes(cudaKernel_t kernel, std::int64_t bytes) {
  // Any other size is asked for, because static variables count towards the free 48 KiB as well.
  if (bytes == 0) return;
  check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                             cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
        "cudaFuncSetAttribute");
}

void launch(cudaKernel_t kernel, std::int64_t blocks, int threads, std::int64_t shared_bytes,
            std::vector<void*>& arguments, cudaStream_t stream) {
  if (blocks == 0) return;
  check(cudaLaunchKernel(
            reinterpret_cast<const void*>(kernel), dim3(static_cast<unsigned int>(blocks)),
            dim3(static_cast<unsigned int>(threads)), arguments.data(), shared_bytes, stream),
        "cudaLaunchKernel");
}

}  // namespace meshwright::exec::cuda
