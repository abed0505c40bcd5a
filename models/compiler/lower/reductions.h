// How gradients are summed over ranks, bucket by bucket: in the backward bodies as they are ready,
// the rest at the step's end. What ZeRO 2 and 3 do unit by unit is in sharded_units.*.
#pragma once

#include "models/compiler/lower/body_builder.h"

namespace meshwright {

struct StageDraft;

// What node `node` of the graph was the last to add to.
void reduce_what_is_ready(StageDraft& draft, BodyBuilder& body, int node);

// What the backward bodies have left to do of a bucket.
void finish_reduction(const StageDraft& draft, BodyBuilder& body, int bucket);

}  // namespace meshwright
