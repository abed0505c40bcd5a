// Owners of the CUDA runtime's resources, which release them when they are destroyed.
#pragma once

#include <cuda_runtime.h>

#include <cstring>
#include <memory>

#include "exec/backends/cuda/device/check.h"

namespace meshwright::exec::cuda {

template <typename Handle, auto give_back>
struct GiveBack {
  using pointer = Handle;
  void operator()(Handle handle) const { static_cast<void>(give_back(handle)); }
};
template <typename Handle, auto give_back>
using Owned = std::unique_ptr<Handle, GiveBack<Handle, give_back>>;

using OwnedStream = Owned<cudaStream_t, cudaStreamDestroy>;
using OwnedEvent = Owned<cudaEvent_t, cudaEventDestroy>;
using OwnedGraph = Owned<cudaGraphExec_t, cudaGraphExecDestroy>;
using DeviceMemory = Owned<void*, cudaFree>;
using PinnedMemory = Owned<void*, cudaFreeHost>;

enum class StreamPriority { usual, high };

// Makes a stream that overlaps with the default stream. When multiprocessors become free, blocks of
// streams with high priority start first.
inline OwnedStream make_stream(StreamPriority priority = StreamPriority::usual) {
  int least = 0, greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                     priority == StreamPriority::high ? greatest : least),
        "cudaStreamCreateWithPriority");
  return OwnedStream(stream);
}

inline OwnedEvent make_event(unsigned int flags = cudaEventDisableTiming) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, flags), "cudaEventCreateWithFlags");
  return OwnedEvent(event);
}

// Allocates device memory, aligned to 256 bytes and not cleared.
inline DeviceMemory device_memory(std::int64_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes > 0 ? bytes : 1), "cudaMalloc");
  return DeviceMemory(memory);
}

// fill_device() and copy_to_device() return when the device has done the work. cudaMemset, and
// cudaMemcpy from pageable memory, may return earlier, and streams made here do not wait for the
// default stream.
inline void fill_device(void* memory, int byte, std::int64_t bytes) {
  check(cudaMemset(memory, byte, bytes), "cudaMemset");
  check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
}
inline void copy_to_device(void* memory, const void* host, std::int64_t bytes) {
  check(cudaMemcpy(memory, host, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
}

// Allocates cleared, pinned host memory that the device can copy from and to by itself.
inline PinnedMemory pinned_memory(std::int64_t bytes) {
  const auto size = static_cast<std::size_t>(bytes > 0 ? bytes : 1);
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, size, cudaHostAllocDefault), "cudaHostAlloc");
  std::memset(memory, 0, size);
  return PinnedMemory(memory);
}

}  // namespace meshwright::exec::cuda
