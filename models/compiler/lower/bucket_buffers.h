// Adds the buffers that a stage keeps from step to step: those of parameters, gradients, optimizer
// states and snapshots, and of the step's scalars and counters.
#pragma once

#include <string_view>
#include <vector>

#include "models/compiler/lower/buckets.h"

namespace meshwright::compiler {

struct StageDraft;

// A buffer that a bucket needs from step to step, and the member of Bucket that says where it is.
struct BucketPart {
  std::string_view name;
  MemoryClass cls = MemoryClass::parameters;
  TensorType type;  // the whole bucket's, or that of the shard of one rank
  Operand Bucket::*operand = nullptr;
};

// Returns a bucket's buffers of weights, gradients and optimizer states. place_buckets() adds them
// to the stage, and the planner's memory bounds sum their bytes without a stage.
std::vector<BucketPart> parts_of(const BucketPlan& planned, const Training& training);

void place_buckets(StageDraft& draft);

}  // namespace meshwright::compiler
