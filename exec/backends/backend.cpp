#include "exec/backends/backend.h"

namespace meshwright::exec {

void wait_for_stream(Backend& backend) {
  if (Streams* streams = backend.streams())
    streams->wait_for_stream();
  else
    backend.wait();
}

void clear(Backend& backend, void* memory, std::int64_t bytes) {
  const TensorType type{Shape{bytes}, Dtype::e4m3};  // one byte per element
  const Attributes attributes;
  backend.run({Op::zero, attributes, {}, {&type, 1}}, {{}, {&memory, 1}}, {});
}

}  // namespace meshwright::exec
