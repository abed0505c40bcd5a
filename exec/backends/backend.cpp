#include "exec/backends/backend.h"

namespace meshwright {

void clear(Backend& backend, void* memory, std::int64_t bytes) {
  const TensorType type{Shape{(bytes + 3) / 4}, Dtype::f32};
  const Attributes attributes;
  backend.run({Op::zero, attributes, {}, {&type, 1}}, {{}, {&memory, 1}}, {});
}

}  // namespace meshwright
