// Numbers in the memory of a device, for tests.
#pragma once

#include <cuda_runtime.h>

#include <vector>

#include "exec/backends/cuda/device/resources.h"

namespace meshwright::tests {

// Numbers in device memory. `offset` is the number of elements between a 256-byte boundary and the
// first one.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<T>& values, std::size_t offset = 0)
      : size_(values.size()), offset_(offset) {
    cuda::check(cudaMalloc(&memory_, (size_ + offset) * sizeof(T)), "cudaMalloc");
    set(values);
  }
  ~DeviceArray() { cudaFree(memory_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return memory_ + offset_; }
  void set(const std::vector<T>& values) {
    cuda::copy_to_device(data(), values.data(), static_cast<std::int64_t>(size_ * sizeof(T)));
  }
  std::vector<T> get() const {
    std::vector<T> values(size_);
    cuda::check(cudaMemcpy(values.data(), data(), size_ * sizeof(T), cudaMemcpyDeviceToHost),
                "cudaMemcpy");
    return values;
  }

 private:
  T* memory_ = nullptr;
  std::size_t size_, offset_;
};

}  // namespace meshwright::tests
