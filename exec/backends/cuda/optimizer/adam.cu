#include "exec/backends/cuda/optimizer/adam.cuh"

#include "exec/backends/cuda/optimizer/rules.h"
#include "exec/backends/cuda/optimizer/step_kernel.cuh"

namespace meshwright::exec::cuda {

void step_adamw(const UpdateScalars* scalars, const DeviceSegments& segments,
                const OptimizerState& state, cudaStream_t stream) {
  if (is_in_blocks(state.moment_type))
    return step_adamw_in_blocks(scalars, segments, state, stream);
  step_by<AdamW>(scalars, segments, state, stream);
}

void step_adam(const UpdateScalars* scalars, const DeviceSegments& segments,
               const OptimizerState& state, cudaStream_t stream) {
  if (is_in_blocks(state.moment_type)) return step_adam_in_blocks(scalars, segments, state, stream);
  step_by<Adam>(scalars, segments, state, stream);
}

}  // namespace meshwright::exec::cuda
