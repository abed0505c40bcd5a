// Adds the buffers of a stage's parameters, gradients and optimizer states, and of the step's
// scalars.
#pragma once

namespace meshwright {

struct StageDraft;

void place_buckets(StageDraft& draft);

}  // namespace meshwright
