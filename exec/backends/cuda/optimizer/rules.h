// The update rules of optimizers. Each function launches one kernel on the segments of one bucket.
// The kernel does nothing if the step has no update.
#pragma once

#include "exec/backends/cuda/optimizer/optimizer.h"

namespace meshwright::exec::cuda {

// A block of threads takes a chunk of groups_per_chunk groups. A group is four neighbouring
// elements, which a thread moves at once: 16 bytes of fp32, so that a warp moves 512 consecutive
// bytes.
constexpr int group = 4, threads_of_elements = 256, groups_per_chunk = threads_of_elements * 4;

using StepRule = void(const UpdateScalars* scalars, const DeviceSegments& segments,
                      const OptimizerState& state, cudaStream_t stream);
StepRule step_adamw, step_adam, step_sgd, step_lion;
StepRule step_adamw_in_blocks, step_adam_in_blocks;  // moments in 8 bits
StepRule step_lamb;                                  // after lamb_norms, which updates the moments
StepRule step_muon;                                  // the state's `update` is orthogonal already
// Applies Adafactor's update. The segments' sums and norms must already be those of all ranks.
void step_adafactor(const Adafactor& settings, const UpdateScalars* scalars,
                    const DeviceSegments& segments, const OptimizerState& state,
                    cudaStream_t stream);

}  // namespace meshwright::exec::cuda
