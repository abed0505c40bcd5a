// The optimizer as an eager framework runs it (torch.optim's single-tensor code): one pass over a
// whole parameter for each arithmetic step.
#pragma once

#include "exec/optimizer/optimizer.h"

namespace meshwright::exec {

// Does what optimizer_step() does, with the same arithmetic in the same order. Results differ only
// if the compiler joins a product and a sum into one rounding. `state.scratch` holds
// optimizer_scratch_arrays() parts as large as the largest segment. LAMB, Adafactor, and
// masters and moments that are not in fp32, use optimizer_step() itself.
void eager_optimizer_step(const StepSettings& training, const OptimizerScalars& scalars,
                          std::span<const OptimizerSegment> segments, const OptimizerState& state,
                          ThreadPool& pool);

}  // namespace meshwright::exec
