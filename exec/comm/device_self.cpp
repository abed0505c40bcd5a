#include "exec/comm/device_self.h"

#include <cuda_runtime.h>

#include "exec/backends/cuda/device/add_numbers.h"
#include "exec/backends/cuda/device/check.h"
#include "exec/comm/self_communicator.h"

namespace meshwright::exec {

namespace {

struct DeviceMemoryOnStream {
  StreamSource& streams;

  cudaStream_t stream() const { return static_cast<cudaStream_t>(streams.current_stream()); }
  void copy(void* to, const void* from, std::int64_t bytes) const {
    cuda::check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream()),
                "cudaMemcpyAsync");
  }
  void add(void* to, const void* from, std::int64_t elements, Dtype dtype) const {
    cuda::add_numbers(to, from, elements, dtype, stream());
  }
  void wait() const { cuda::check(cudaStreamSynchronize(stream()), "cudaStreamSynchronize"); }
};

}  // namespace

std::unique_ptr<Communicator> make_device_self_communicator(StreamSource& streams) {
  return std::make_unique<SelfCommunicator<DeviceMemoryOnStream>>(DeviceMemoryOnStream{streams});
}

}  // namespace meshwright::exec
