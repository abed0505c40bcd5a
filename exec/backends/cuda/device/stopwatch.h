// Measures how long work takes on the device.
#pragma once

#include "exec/backends/cuda/device/resources.h"

namespace meshwright::exec::cuda {

// Times work on the device, on a stream of its own.
class Stopwatch {
 public:
  // Returns the milliseconds that `times` calls of `issue` take together on the stream. One more
  // call before them, which is not measured, loads code.
  template <typename Issue>
  float milliseconds(int times, const Issue& issue) const {
    issue(stream_.get());
    check(cudaEventRecord(begin_.get(), stream_.get()), "cudaEventRecord");
    for (int i = 0; i < times; ++i) issue(stream_.get());
    check(cudaEventRecord(end_.get(), stream_.get()), "cudaEventRecord");
    check(cudaEventSynchronize(end_.get()), "cudaEventSynchronize");
    float passed = 0;
    check(cudaEventElapsedTime(&passed, begin_.get(), end_.get()), "cudaEventElapsedTime");
    return passed;
  }

 private:
  OwnedStream stream_ = make_stream();
  OwnedEvent begin_ = make_event(cudaEventDefault), end_ = make_event(cudaEventDefault);
};

}  // namespace meshwright::exec::cuda
