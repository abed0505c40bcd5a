#include "exec/backends/cuda/optimizer/elements.cuh"

namespace meshwright::exec::cuda {

namespace {

// Updates the biases by which routers choose experts. Each block has those of one router that are
// in the bucket.
template <typename P, typename W>
__global__ void __launch_bounds__(threads)
    choice_biases_kernel(const UpdateScalars* scalars, const ChoiceBias* biases, P* weights,
                         W* working, float rate) {
  if (scalars->updates == 0) return;
  const ChoiceBias bias = biases[blockIdx.x];
  double all = 0;  // a sum of whole numbers is the same in any order
  for (std::int64_t e = 0; e < bias.experts; ++e) all += bias.counts[e];
  for (std::int64_t i = threadIdx.x; i < bias.count; i += threads) {
    const double missing = all - static_cast<double>(bias.experts) * bias.counts[bias.first + i];
    const float sign = static_cast<float>(missing > 0) - static_cast<float>(missing < 0);
    const std::int64_t at = bias.begin + i;
    put_weight(weights, working, at, weight_at(weights, working, at) + rate * sign);
  }
}

}  // namespace

void update_choice_biases(double rate, const UpdateScalars* scalars, const ChoiceBias* biases,
                          std::int64_t count, const OptimizerState& state, cudaStream_t stream) {
  with_masters(state, [&]<typename P, typename W>() {
    launch(choice_biases_kernel<P, W>, {blocks_for(count, 1)}, {threads}, 0, stream, scalars,
           biases, static_cast<P*>(state.weights), static_cast<W*>(state.working),
           static_cast<float>(rate));
  });
}

}  // namespace meshwright::exec::cuda
