// The update rules of AdamW and Adam.
#pragma once

#include "exec/backends/cuda/optimizer/elements.cuh"

namespace meshwright::exec::cuda {

// Updates one element. `coupled` times the weight is added to the gradient (the decay of adam), and
// `shrink` is a factor of the weight (the decay of adamw).
inline __device__ void adam(const Factors& c, float coupled, float shrink, Element& e) {
  const float g = gradient_in(c, e) + coupled * e.weight;
  e.first = c.beta1 * e.first + c.one_minus_beta1 * g;
  e.second = c.beta2 * e.second + c.one_minus_beta2 * g * g;
  e.weight =
      e.weight * shrink - c.step_size * e.first / (sqrtf(e.second) * c.inverse_root_2 + c.epsilon);
}

struct AdamW {
  static constexpr Reads reads{true, true, true, true};
  static __device__ void apply(const Factors& c, const OfSegment& s, Element& e) {
    adam(c, 0, 1 - c.learning_rate * s.decay, e);
  }
};

struct Adam {
  static constexpr Reads reads{true, true, true, true};
  static __device__ void apply(const Factors& c, const OfSegment& s, Element& e) {
    adam(c, s.decay, 1, e);
  }
};

}  // namespace meshwright::exec::cuda
