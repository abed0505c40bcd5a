// The update rules of optimizers with one moment.
#include "exec/backends/cuda/optimizer/rules.h"
#include "exec/backends/cuda/optimizer/step_kernel.cuh"

namespace meshwright::exec::cuda {

namespace {

struct Sgd {
  static constexpr Reads reads{true, true, false, true};
  static __device__ void apply(const Factors& c, const OfSegment& s, Element& e) {
    e.first = c.momentum * e.first + gradient_in(c, e) + s.decay * e.weight;
    e.weight -= c.learning_rate * e.first;
  }
};

struct Lion {
  static constexpr Reads reads{true, true, false, true};
  static __device__ void apply(const Factors& c, const OfSegment& s, Element& e) {
    const float g = gradient_in(c, e);
    const float update = c.beta1 * e.first + c.one_minus_beta1 * g;
    const float sign = static_cast<float>(update > 0) - static_cast<float>(update < 0);
    e.first = c.beta2 * e.first + c.one_minus_beta2 * g;
    e.weight = e.weight * (1 - c.learning_rate * s.decay) - c.learning_rate * sign;
  }
};

}  // namespace

void step_sgd(const UpdateScalars* scalars, const DeviceSegments& segments,
              const OptimizerState& state, cudaStream_t stream) {
  step_by<Sgd>(scalars, segments, state, stream);
}

void step_lion(const UpdateScalars* scalars, const DeviceSegments& segments,
               const OptimizerState& state, cudaStream_t stream) {
  step_by<Lion>(scalars, segments, state, stream);
}

}  // namespace meshwright::exec::cuda
