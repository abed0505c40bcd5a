// Which stream of a device the work of its communicators goes to: the backend says, and whoever
// issues instructions chooses. (Plain memory addresses on both sides: nothing of CUDA here.)
#pragma once

namespace meshwright {

class StreamSource {
 public:
  virtual ~StreamSource() = default;
  // Returns a cudaStream_t. Work issued to it from now on comes after what was issued there before.
  virtual void* current_stream() = 0;
};

}  // namespace meshwright
