// Replaces the virtual memory of the CUDA driver. A program reserves addresses first, and maps
// memory to parts of them later. PyTorch's expandable segments (`expandable_segments:True`) grow in
// this way.
#include <cuda.h>
#include <sys/mman.h>

#include "tools/stand_in/device.h"
#include "tools/stand_in/memory.h"

using namespace meshwright::stand_in;

namespace {
constexpr std::size_t kGranularity = std::size_t{2} << 20;
}  // namespace

extern "C" {

CUresult cuMemGetAllocationGranularity(std::size_t* bytes, const CUmemAllocationProp*,
                                       CUmemAllocationGranularity_flags) {
  *bytes = kGranularity;
  return CUDA_SUCCESS;
}
CUresult cuMemAddressReserve(CUdeviceptr* address, std::size_t bytes, std::size_t, CUdeviceptr,
                             unsigned long long) {
  *address = reinterpret_cast<CUdeviceptr>(reserve(bytes));
  return *address == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
CUresult cuMemAddressFree(CUdeviceptr address, std::size_t) {
  return unreserve(reinterpret_cast<void*>(address)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// A handle points to the size and the device of the memory.
CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t bytes,
                     const CUmemAllocationProp*, unsigned long long) {
  if (!take(bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  *handle = reinterpret_cast<CUmemGenericAllocationHandle>(new Block{bytes, current_device()});
  return CUDA_SUCCESS;
}
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  const auto* const block = reinterpret_cast<const Block*>(handle);
  give_back(block->bytes, block->device);
  delete block;
  return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr, std::size_t, std::size_t, CUmemGenericAllocationHandle,
                  unsigned long long) {
  return CUDA_SUCCESS;
}
CUresult cuMemUnmap(CUdeviceptr address, std::size_t bytes) {
  madvise(reinterpret_cast<void*>(address), bytes, MADV_DONTNEED);
  return CUDA_SUCCESS;
}
CUresult cuMemSetAccess(CUdeviceptr, std::size_t, const CUmemAccessDesc*, std::size_t) {
  return CUDA_SUCCESS;
}
}
