// Sums gradients over ranks, bucket by bucket: in the backward bodies as they are ready, the rest
// at the step's end. ZeRO 2 and 3 reduce unit by unit in sharded_units.*.
#pragma once

#include "models/compiler/lower/body_builder.h"

namespace meshwright {

struct StageDraft;

// Reduces the buckets to which node `node` of the graph was the last to add.
void reduce_what_is_ready(StageDraft& draft, BodyBuilder& body, int node);

// Reduces what the backward bodies have left of a bucket.
void finish_reduction(const StageDraft& draft, BodyBuilder& body, int bucket);

}  // namespace meshwright
