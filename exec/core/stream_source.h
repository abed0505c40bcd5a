// Tells communicators to which stream of a device they issue their work. The backend implements
// this, and the code that issues instructions chooses the stream. The interface has no types of
// CUDA.
#pragma once

namespace meshwright::exec {

class StreamSource {
 public:
  virtual ~StreamSource() = default;
  // Returns a cudaStream_t. Work issued to it from now on comes after what was issued there before.
  virtual void* current_stream() = 0;
};

}  // namespace meshwright::exec
