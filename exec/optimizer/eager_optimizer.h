// The optimizer as an eager framework runs it (torch.optim's single-tensor code): one pass over a
// whole parameter for each arithmetic step.
#pragma once

#include "exec/optimizer/optimizer.h"

namespace meshwright {

// Does what optimizer_step does, with the same arithmetic in the same order: results differ only
// where the compiler joins a product and a sum into one rounding. `state.scratch` holds
// optimizer_scratch_arrays() parts as large as the largest segment. LAMB and Adafactor have their
// one kernel, and so have moments in 8 bits.
void eager_optimizer_step(const StepSettings& training, const OptimizerScalars& scalars,
                          std::span<const OptimizerSegment> segments, const OptimizerState& state,
                          ThreadPool& pool);

}  // namespace meshwright
