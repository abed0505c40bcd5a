// Gathers and reduces unit by unit. Under ZeRO 3, weights are gathered before use. Gradients that
// are reduced in every micro-batch are reduced bucket by bucket as they become ready. While one
// unit computes, the next ones are gathered, as many as the cap on live parameters allows (in the
// backward, one), and the previous one is reduced. If gathered weights are kept from forward to
// backward, each unit has a buffer of its own.
#pragma once

#include <vector>

#include "models/compiler/lower/body_builder.h"
#include "models/compiler/lower/unit_buffers.h"

namespace meshwright::compiler {

struct StageDraft;

// The number of buffers that a backward uses for gradients before they are reduced, and at most for
// gathered weights. Gradients are reduced on the stream of the gathers, and units wait for both, so
// gathers of units further ahead would delay the reduction of this unit's gradients.
constexpr int backward_buffers = 2;

// Returns the least number of buffers of gathered weights that units use round-robin: two if
// gathers overlap with compute and live parameters have no cap, otherwise one. A cap may allow more
// buffers.
int least_gather_buffers(const Parallelism& parallelism);

struct ShardedUnits {
  UnitBuffers weights;    // gathered weights, under ZeRO 3
  UnitBuffers gradients;  // gradients before they are reduced
  // If weights are kept: whether those that several units share are gathered already.
  bool has_shared = false;
  // Buckets of the body that is being written whose sums over all replicas have not been added to
  // those of earlier micro-batches yet (only buckets that are not sharded).
  std::vector<int> to_add;
  // For the backward body of each chunk: the instructions that clear a buffer of gradients for the
  // first time in the body, and the last reduction (-1 if there is none).
  std::vector<std::vector<int>> first_zeros;
  std::vector<int> last_reduction;
};

// The functions from here to wait_for_earlier_reductions() do nothing if neither weights nor
// gradients are handled unit by unit.
void place_unit_buffers(StageDraft& draft);
// Writes the gathers, waits and clears that come before the nodes of the unit at `position` of a
// body's `units`.
void enter_unit(StageDraft& draft, BodyBuilder& body, const std::vector<int>& units,
                std::size_t position);
// Writes the end of a backward body: reduces gradients that several units share, and adds reduced
// sums that have not been added yet.
void finish_units(StageDraft& draft, BodyBuilder& body);
// Makes the first units of a backward task wait for the reductions of earlier tasks, because they
// reuse buffers from which these may still be reducing.
void wait_for_earlier_reductions(StageDraft& draft);

// Reduces a bucket whose gradients are ready.
void reduce_unit_bucket(StageDraft& draft, BodyBuilder& body, int bucket);
// Makes the instruction wait for the unit-by-unit reductions of all chunks' latest backward tasks.
void wait_for_unit_reductions(const StageDraft& draft, Instruction& instruction);

}  // namespace meshwright::compiler
