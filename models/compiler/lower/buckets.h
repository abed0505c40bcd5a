// Groups the parameters of a stage into buckets. The parameters of a bucket are reduced, sharded
// and updated together.
#pragma once

#include <vector>

#include "models/compiler/lower/boundaries.h"
#include "models/compiler/plan/plan.h"
#include "models/program/program.h"

namespace meshwright::compiler {

// The ranks over which gradients of a bucket are reduced besides the data-parallel ones.
struct BucketClass {
  bool partial = false;  // tensor ranks have partial gradients, which are summed first
  // The stages that have copies of the parameters. Gradients are reduced over them last. `none`:
  // one stage. `embedding`: the first and the last stage (tied embeddings). `pipeline`: all stages,
  // also those that do not use the parameters (tables of relative positions, layers that share
  // weights, a table that the decoder shares too).
  GroupKind tied = GroupKind::none;
  bool is_tied() const { return tied != GroupKind::none; }
  bool operator==(const BucketClass&) const = default;
};

// Unit of a bucket whose parameters several units of a stage use (a tied embedding).
constexpr int shared_unit = -1;
// Unit of a bucket that is not gathered or reduced unit by unit.
constexpr int no_unit = -2;

struct BucketPlan {
  Bucket bucket;
  BucketClass cls;
  int chunk = 0;
  int zero = 0;               // zero_stage_of() its parameters (sharding.h)
  bool is_cut = false;        // for a bucket of matrices: they are split over the tensor group
  bool reduced_each = false;  // its gradients are reduced in every micro-batch
  // The unit with which it is gathered or reduced, or no_unit or shared_unit.
  int unit = no_unit;
  std::int64_t offset = 0;  // elements from the start of the unit's buffer of gradients
  // Bytes from the start of the unit's buffer of gathered weights.
  std::int64_t gathered_offset = 0;
  // Whether weights are gathered in 8 bits (rounded_weights.h). `own_bits` then holds the bits of
  // the local shard. `largest` and `scales` hold one f32 for each of `bucket.parameters`: the
  // largest element, and the factor by which bits are multiplied.
  bool is_rounded = false;
  Operand own_bits, largest, scales;
  Dtype storage = Dtype::f32;  // type of its weights; 4-bit weights have their own
  Dtype gathered_type() const { return is_rounded ? Dtype::e4m3 : storage; }
  // The node of the graph after which all its gradients are complete, or -1 if it is not trained or
  // no node of this stage adds to its gradients.
  int ready_node = 0;
  // If the bucket is reduced once a step in the body of a chunk: the index of that body, and that
  // of its last instruction that reduces the bucket. If not, reduced_by is -1.
  int reduced_in = -1, reduced_by = -1;
};

// Fills program.parameters and returns their buckets. Trained parameters are in the order in which
// their gradients are complete, except that all stages have tied parameters in the same order.
// Parameters that only other stages use come first, and those that are not trained last. Buckets
// have sizes and members, but no memory yet.
std::vector<BucketPlan> make_buckets(const Graph& graph, const Plan& plan,
                                     const Boundaries& boundaries, Program& program);

// Returns the number of ranks of a stage, at one tensor index, that have the same local part of the
// bucket.
int replicas_of(const Degrees& degrees, const Bucket& bucket);

}  // namespace meshwright::compiler
