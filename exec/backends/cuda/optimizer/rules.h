// The rules of optimizers: one kernel each, on the segments of one bucket, if there is an update.
#pragma once

#include "exec/backends/cuda/optimizer/optimizer.h"

namespace meshwright::cuda {

// The elements that a block of threads takes: a thread moves a group of four neighbours at a time,
// 16 bytes of fp32, and a warp's are 512 in a row.
constexpr int group = 4, threads_of_elements = 256, groups_per_chunk = threads_of_elements * 4;

using StepRule = void(const UpdateScalars* scalars, const DeviceSegments& segments,
                      const OptimizerState& state, cudaStream_t stream);
StepRule step_adamw, step_adam, step_sgd, step_lion;
StepRule step_adamw_in_blocks, step_adam_in_blocks;  // moments in 8 bits
StepRule step_lamb;                                  // the moments are up to date
StepRule step_muon;                                  // `update` is orthogonal
// Sums and norms are those of all ranks.
void step_adafactor(const Adafactor& settings, const UpdateScalars* scalars,
                    const DeviceSegments& segments, const OptimizerState& state,
                    cudaStream_t stream);

}  // namespace meshwright::cuda
