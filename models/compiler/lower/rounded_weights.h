// Implements `fp8_gathers`, for weights that are only multiplied in 8 bits. When a step begins, the
// ranks that share these weights find the largest element of each by an all-reduce. Each rank then
// rounds its own shard, and only the bits are gathered. A parameter has one scale, as in
// `fp8_recipe: tensorwise`, so the bits equal those of the gathered weight after rounding.
#pragma once

#include "models/compiler/lower/body_builder.h"
#include "models/compiler/lower/draft.h"

namespace meshwright::compiler {

// Adds the buffers of bits and scales. Must be called after place_buckets().
void place_rounded_weights(StageDraft& draft);

void round_own_weights(const StageDraft& draft, BodyBuilder& step_begin);

}  // namespace meshwright::compiler
