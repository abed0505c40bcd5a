// Sums gradients over ranks, bucket by bucket: in the backward bodies as they become ready, the
// rest at the step's end. For gradients that are reduced in every micro-batch, sharded_units.*
// writes the reductions of the bodies.
#pragma once

#include "models/compiler/lower/body_builder.h"

namespace meshwright::compiler {

struct StageDraft;

// Reduces the buckets whose gradients are complete after node `node` of the graph.
void reduce_what_is_ready(StageDraft& draft, BodyBuilder& body, int node);

// Writes the reductions of a bucket that the backward bodies have left to the step's end.
void finish_reduction(const StageDraft& draft, BodyBuilder& body, int bucket);

}  // namespace meshwright::compiler
