// How long work takes on the device.
#pragma once

#include <cuda_runtime.h>

#include <array>

#include "exec/backends/cuda/check.h"

namespace meshwright::cuda {

// Has a stream of its own.
class Stopwatch {
 public:
  Stopwatch() {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    for (cudaEvent_t& event : events_) check(cudaEventCreate(&event), "cudaEventCreate");
  }
  ~Stopwatch() {
    for (const cudaEvent_t event : events_) cudaEventDestroy(event);
    cudaStreamDestroy(stream_);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  // Of `times` times what `issue` gives to a stream, after once more, which loads code.
  template <typename Issue>
  float milliseconds(int times, const Issue& issue) const {
    issue(stream_);
    check(cudaEventRecord(events_[0], stream_), "cudaEventRecord");
    for (int i = 0; i < times; ++i) issue(stream_);
    check(cudaEventRecord(events_[1], stream_), "cudaEventRecord");
    check(cudaEventSynchronize(events_[1]), "cudaEventSynchronize");
    float passed = 0;
    check(cudaEventElapsedTime(&passed, events_[0], events_[1]), "cudaEventElapsedTime");
    return passed;
  }

 private:
  cudaStream_t stream_ = nullptr;
  std::array<cudaEvent_t, 2> events_{};
};

}  // namespace meshwright::cuda
