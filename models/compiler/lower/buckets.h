// Parameters of a stage grouped into buckets: what is reduced, sharded and stepped together.
#pragma once

#include <string>
#include <vector>

#include "models/compiler/lower/boundaries.h"
#include "models/compiler/plan/plan.h"
#include "models/program/program.h"

namespace meshwright {

// Says over which ranks gradients are reduced besides the data-parallel ones.
struct BucketClass {
  bool partial = false;  // first summed over the tensor group (sequence parallelism)
  // Last over stages that have copies: none; `embedding`, the first and the last (tied embeddings);
  // `pipeline`, all of them, those too that do not use it (tables of relative positions, layers
  // that are one, a table that the decoder shares too).
  GroupKind tied = GroupKind::none;
  bool is_tied() const { return tied != GroupKind::none; }
  bool operator==(const BucketClass&) const = default;
};

// A bucket of parameters that several units of a stage use (a tied embedding).
constexpr int shared_unit = -1;
// A bucket that is not gathered or reduced unit by unit.
constexpr int no_unit = -2;

struct BucketPlan {
  Bucket bucket;
  BucketClass cls;
  int chunk = 0;
  int zero = 0;               // the ZeRO stage of its parameters: small ones may be left at 1
  bool is_cut = false;        // of matrices: over the tensor group
  bool reduced_each = false;  // its gradients, in every micro-batch
  int unit = no_unit;         // gathered or reduced with its unit, to which all of it belongs
  std::int64_t offset = 0;    // elements from the start of the unit's buffer of gradients
  std::int64_t gathered_offset = 0;  // bytes from the start of its buffer of weights
  // Gathered in 8 bits (rounded_weights.h): the bits of the own part; of its parameters, in the
  // order of `bucket.parameters`, f32 each: the largest element, and what bits are multiplied by.
  bool is_rounded = false;
  Operand own_bits, largest, scales;
  Dtype gathered_type(const Training& training) const {
    return is_rounded ? Dtype::e4m3 : storage_of(training.precision);
  }
  int ready_node = 0;  // graph node after which all its gradients are summed
  // If the bucket is reduced once a step in a chunk's body: that body, and the last instruction
  // that reduces it.
  int reduced_in = -1, reduced_by = -1;
};

// Fills program.parameters and makes their buckets (sizes and members, no memory yet), in the order
// in which gradients are ready.
std::vector<BucketPlan> make_buckets(const Graph& graph, const Plan& plan,
                                     const Boundaries& boundaries, Program& program);

// Returns the number of ranks that have the same local part of the bucket.
int replicas_of(const Degrees& degrees, const Bucket& bucket);

}  // namespace meshwright
