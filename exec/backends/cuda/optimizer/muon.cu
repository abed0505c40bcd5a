#include "exec/backends/cuda/optimizer/rules.h"
#include "exec/backends/cuda/optimizer/step_kernel.cuh"

namespace meshwright::exec::cuda {

namespace {

// Applies muon's update, which is orthogonal already. The rule reads the update in the gradient's
// place.
struct Muon {
  static constexpr Reads reads{true, false, false, false};
  static __device__ void apply(const Factors& c, const OfSegment& s, Element& e) {
    e.weight = e.weight * (1 - c.learning_rate * s.decay) - c.learning_rate * s.trust * e.gradient;
  }
};

template <typename G, typename M>
__global__ void __launch_bounds__(threads)
    muon_momentum_kernel(const UpdateScalars* scalars, DeviceSegments segments, const G* gradients,
                         M* first, float* update) {
  if (scalars->updates == 0) return;
  const DeviceSegment segment = segment_of(segments, blockIdx.x);
  const Factors c = scalars->factors;
  const std::int64_t chunk = blockIdx.x - segment.first_chunk;
  const std::int64_t begin = (segment.begin / group + chunk * groups_per_chunk) * group;
  for (int place = threadIdx.x; place < groups_per_chunk * group; place += threads) {
    const std::int64_t i = begin + place;
    if (i < segment.begin || i >= segment.end) continue;
    Element e{0, widened(gradients[i]), widened(first[i]), 0};
    const float g = gradient_in(c, e);
    e.first = c.momentum * e.first + g;
    float kept[1] = {e.first}, none[1] = {0};
    Roundings<M, 1>(segment, scalars->step, i).apply(kept, none);
    narrow(kept[0], first[i]);
    update[i] = g + c.momentum * e.first;
  }
}

}  // namespace

void muon_momentum(const UpdateScalars* scalars, const DeviceSegments& segments,
                   const OptimizerState& state, cudaStream_t stream) {
  with_type(state.gradient_type, [&]<typename G>(G) {
    with_moments<true>(state, [&]<typename M>(M) {
      launch(muon_momentum_kernel<G, M>, blocks_of(segments), {threads}, 0, stream, scalars,
             segments, static_cast<const G*>(state.gradients), static_cast<M*>(state.first_moment),
             state.update);
    });
  });
}

void step_muon(const UpdateScalars* scalars, const DeviceSegments& segments,
               const OptimizerState& state, cudaStream_t stream) {
  OptimizerState read = state;
  read.gradients = state.update;
  read.first_moment = read.second_moment = nullptr;
  with_masters(read, [&]<typename P, typename W>() {
    launch_step<Muon>(scalars, segments, arrays_of<float, P, W, float>(read), stream);
  });
}

}  // namespace meshwright::exec::cuda
