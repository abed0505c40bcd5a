// A number that a stream writes to host memory, so that the host can read how far the stream has
// come while the device is at work. A write can also be captured in a CUDA graph, and happens at
// each replay.
#pragma once

#include <cuda_runtime.h>

namespace meshwright::exec::cuda {

class HostMark {
 public:
  // `turn` counts the writes. It shows progress even if a replayed graph writes the same value
  // again. The two members may come from different writes if the device writes while the host
  // reads.
  struct Reading {
    unsigned int value = 0, turn = 0;
    bool operator==(const Reading&) const = default;
  };

  HostMark();
  ~HostMark();
  HostMark(const HostMark&) = delete;
  HostMark& operator=(const HostMark&) = delete;

  void write(unsigned int value, cudaStream_t stream);  // issues the write on the stream
  Reading read() const;  // any thread may call it; both members are 0 before the first write

 private:
  unsigned int* seen_ = nullptr;   // pinned host memory: value, turn
  unsigned int* turns_ = nullptr;  // device memory: number of writes
};

}  // namespace meshwright::exec::cuda
