#include "exec/backends/cuda/optimizer/norms.cuh"
#include "exec/backends/cuda/optimizer/rules.h"
#include "exec/backends/cuda/optimizer/step_kernel.cuh"

namespace meshwright::exec::cuda {

namespace {

// Returns what lamb subtracts from a weight, before it is multiplied by the learning rate and the
// trust.
__device__ float lamb_update(const Factors& c, const OfSegment& s, const Element& e) {
  return e.first * c.inverse_correction / (sqrtf(e.second) * c.inverse_root_2 + c.epsilon) +
         s.decay * e.weight;
}

// Applies lamb's update with moments that lamb_norms has already updated.
struct Lamb {
  static constexpr Reads reads{false, true, true, false};
  static __device__ void apply(const Factors& c, const OfSegment& s, Element& e) {
    e.weight -= c.learning_rate * s.trust * lamb_update(c, s, e);
  }
};

struct LambMoments {
  static constexpr Reads reads{true, true, true, true};
  static __device__ void apply(const Factors& c, Element& e) {
    const float g = gradient_in(c, e);
    e.first = c.beta1 * e.first + c.one_minus_beta1 * g;
    e.second = c.beta2 * e.second + c.one_minus_beta2 * g * g;
  }
};

template <typename A>
__global__ void __launch_bounds__(threads)
    lamb_moments_kernel(const UpdateScalars* scalars, DeviceSegments segments, A arrays,
                        SquaredNorms* partial) {
  if (scalars->updates == 0) return;
  const DeviceSegment segment = segment_of(segments, blockIdx.x);
  const Factors factors = scalars->factors;
  const OfSegment own = of_segment(segment, factors);
  SquaredNorms sum{0, 0};
  for_each_element<LambMoments::reads>(segment, arrays, false, *scalars, [&](Element& e) {
    LambMoments::apply(factors, e);
    const double w = e.weight, u = lamb_update(factors, own, e);
    sum.weights += w * w;
    sum.update += u * u;
  });
  sum = add_over_block(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

}  // namespace

void lamb_norms(const StepSettings&, const UpdateScalars* scalars, const DeviceSegments& segments,
                const OptimizerState& state, void* partial, cudaStream_t stream) {
  auto* sums = static_cast<SquaredNorms*>(partial);
  with_arrays(state, [&]<typename A>(const A& arrays) {
    launch(lamb_moments_kernel<A>, blocks_of(segments), {threads}, 0, stream, scalars, segments,
           arrays, sums);
  });
  launch(add_norms_kernel, {blocks_for(segments.count, 1)}, {threads}, 0, stream, scalars, segments,
         sums);
}

std::int64_t lamb_scratch_bytes(const DeviceSegments& segments) {
  return segments.chunks * static_cast<std::int64_t>(sizeof(SquaredNorms));
}

// Applies lamb's update. It needs neither gradients nor the rounding of moments, because lamb_norms
// has updated the moments.
void step_lamb(const UpdateScalars* scalars, const DeviceSegments& segments,
               const OptimizerState& state, cudaStream_t stream) {
  OptimizerState read = state;
  read.gradients = nullptr;
  with_masters(read, [&]<typename P, typename W>() {
    with_moments<false>(read, [&]<typename M>(M) {
      launch_step<Lamb>(scalars, segments, arrays_of<float, P, W, M>(read), stream);
    });
  });
}

}  // namespace meshwright::exec::cuda
