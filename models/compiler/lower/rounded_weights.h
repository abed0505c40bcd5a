// `fp8_gathers`: weights that are multiplied in 8 bits alone. When a step begins, the ranks that
// share them tell each other the largest element of each, and each rounds its own shard; what is
// gathered are the bits. One scale for a parameter, as `fp8_recipe: tensorwise` has it, so the
// bits are those of the gathered weight rounded.
#pragma once

#include "models/compiler/lower/body_builder.h"
#include "models/compiler/lower/draft.h"

namespace meshwright {

// After the buckets' own memory: that of bits and scales.
void place_rounded_weights(StageDraft& draft);

void round_own_weights(const StageDraft& draft, BodyBuilder& step_begin);

}  // namespace meshwright
