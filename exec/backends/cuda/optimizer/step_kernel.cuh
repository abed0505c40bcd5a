// The kernel that updates all elements of a bucket by an optimizer's rule.
#pragma once

#include "exec/backends/cuda/optimizer/elements.cuh"

namespace meshwright::exec::cuda {

// Returns the factor |weights| / |update| of lamb. It is 1 for a segment without norms, for a
// parameter that is all 0, and if the update is 0.
inline __device__ float trust_of(const DeviceSegment& segment) {
  if (segment.norms == nullptr || segment.norms[0] <= 0 || segment.norms[1] <= 0) return 1;
  return static_cast<float>(sqrt(segment.norms[0] / segment.norms[1]));
}

template <typename Rule, typename A>
__global__ void __launch_bounds__(threads)
    step_kernel(const UpdateScalars* scalars, DeviceSegments segments, A arrays) {
  if (scalars->updates == 0) return;
  const DeviceSegment segment = segment_of(segments, blockIdx.x);
  const Factors factors = scalars->factors;
  OfSegment own = of_segment(segment, factors);
  own.trust = Rule::reads.gradient ? segment.scale : trust_of(segment);
  for_each_element<Rule::reads>(segment, arrays, true, *scalars,
                                [&](Element& e) { Rule::apply(factors, own, e); });
}

template <typename Rule, typename A>
void launch_step(const UpdateScalars* scalars, const DeviceSegments& segments, const A& arrays,
                 cudaStream_t stream) {
  launch(step_kernel<Rule, A>, blocks_of(segments), {threads}, 0, stream, scalars, segments,
         arrays);
}

// Launches the step of a rule that reads gradients and writes moments.
template <typename Rule>
void step_by(const UpdateScalars* scalars, const DeviceSegments& segments,
             const OptimizerState& state, cudaStream_t stream) {
  with_arrays(state, [&]<typename A>(const A& arrays) {
    launch_step<Rule>(scalars, segments, arrays, stream);
  });
}

}  // namespace meshwright::exec::cuda
