#include "exec/backends/cuda/device/host_mark.h"

#include <atomic>

#include "exec/backends/cuda/device/launch.h"
#include "exec/backends/cuda/device/resources.h"

namespace meshwright::exec::cuda {

namespace {
__global__ void write_mark(unsigned int* seen, unsigned int* turns, unsigned int value) {
  volatile unsigned int* to = seen;
  to[1] = ++*turns;
  to[0] = value;
}
}  // namespace

HostMark::HostMark() {
  void *seen = nullptr, *turns = nullptr;
  check(cudaHostAlloc(&seen, 2 * sizeof(unsigned int), cudaHostAllocMapped), "cudaHostAlloc");
  seen_ = static_cast<unsigned int*>(seen);
  seen_[0] = seen_[1] = 0;
  check(cudaMalloc(&turns, sizeof(unsigned int)), "cudaMalloc");
  fill_device(turns, 0, sizeof(unsigned int));
  turns_ = static_cast<unsigned int*>(turns);
}

HostMark::~HostMark() {
  cudaFree(turns_);
  cudaFreeHost(seen_);
}

void HostMark::write(unsigned int value, cudaStream_t stream) {
  launch(write_mark, {1}, {1}, 0, stream, seen_, turns_, value);
}

HostMark::Reading HostMark::read() const {
  return {std::atomic_ref(seen_[0]).load(), std::atomic_ref(seen_[1]).load()};
}

}  // namespace meshwright::exec::cuda
