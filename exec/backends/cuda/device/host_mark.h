// A number that a stream writes where the host can read it while the device is at work: how far it
// has come, also inside a captured graph.
#pragma once

#include <cuda_runtime.h>

#include <memory>

namespace meshwright::cuda {

class HostMark {
 public:
  // `turn` counts the writes, so that a replayed graph which writes the same value is seen to move.
  struct Reading {
    unsigned int value = 0, turn = 0;
    bool operator==(const Reading&) const = default;
  };

  HostMark();
  ~HostMark();
  HostMark(const HostMark&) = delete;
  HostMark& operator=(const HostMark&) = delete;

  void write(unsigned int value, cudaStream_t stream);  // when the stream comes to it
  Reading read() const;                                 // by any thread, at any time; 0 at first

 private:
  unsigned int* seen_ = nullptr;   // pinned: value, turn
  unsigned int* turns_ = nullptr;  // on the device
};

}  // namespace meshwright::cuda
