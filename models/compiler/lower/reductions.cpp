#include "models/compiler/lower/reductions.h"

#include "models/compiler/lower/collective.h"
#include "models/compiler/lower/draft.h"

namespace meshwright::compiler {

namespace {

// Reduces a bucket once a step: first over the tensor group if its ranks have partial gradients,
// then over the data-parallel ranks. Returns the last instruction written, or -1 if there is
// nothing to reduce.
int reduce_bucket(const StageDraft& draft, BodyBuilder& body, int b, When when) {
  const BucketPlan& planned = draft.buckets[b];
  const Bucket& bucket = planned.bucket;
  const bool replicated = replicas_of(draft.degrees, bucket) > 1;
  const int before = body.size();
  const auto reduce = [&](InstructionKind kind, GroupKind group, const Operand& from,
                          const Operand& to, int root = 0) {
    emit_collective(draft.plan, body,
                    {.kind = kind,
                     .group = group,
                     .input = from,
                     .output = to,
                     .bucket = b,
                     .when = when,
                     .root = root});
  };
  const Operand &all = bucket.gradients, &own = bucket.own_gradients;
  if (planned.cls.partial) reduce(InstructionKind::all_reduce, GroupKind::tensor, all, all);
  if (!bucket.owner.everybody()) {
    reduce(InstructionKind::reduce, GroupKind::rdp, all, all, bucket.owner.rdp);
  } else if (bucket.sharded) {
    reduce(InstructionKind::reduce_scatter, bucket.shard(), all, own);
    if (replicated) reduce(InstructionKind::all_reduce, bucket.replica(), own, own);
  } else if (replicated) {
    reduce(InstructionKind::all_reduce, bucket.rdp(), all, all);
  }
  return body.size() > before ? body.size() - 1 : -1;
}

}  // namespace

void reduce_what_is_ready(StageDraft& draft, BodyBuilder& body, int node) {
  const bool overlap = draft.plan.parallelism.overlap_gradients;
  for (int b = 0; b < static_cast<int>(draft.buckets.size()); ++b) {
    BucketPlan& planned = draft.buckets[b];
    if (planned.ready_node != node) continue;
    if (planned.reduced_each) {
      if (planned.unit != shared_unit) reduce_unit_bucket(draft, body, b);
    } else if (overlap && !planned.cls.is_tied()) {
      planned.reduced_in = body.number();
      planned.reduced_by = reduce_bucket(draft, body, b, When::last_micro_batch);
    }
  }
}

// Reduces the rest of a bucket at the step's end. Gradients that were reduced in every micro-batch
// are already summed over the shard group, or over all replicas if there are no shards. For these,
// only the local shards are summed over the tensor group and over the copies of the shards.
void finish_reduction(const StageDraft& draft, BodyBuilder& body, int b) {
  const BucketPlan& planned = draft.buckets[b];
  if (planned.bucket.frozen) return;
  const auto all_reduce = [&](GroupKind group) {
    emit_collective(draft.plan, body, all_reduce_in(group, planned.bucket.own_gradients, b));
  };
  if (planned.reduced_each) {
    const bool copies = planned.bucket.sharded && replicas_of(draft.degrees, planned.bucket) > 1;
    if (planned.cls.partial) all_reduce(GroupKind::tensor);
    if (copies) all_reduce(planned.bucket.replica());
  } else if (planned.cls.is_tied() || !draft.plan.parallelism.overlap_gradients) {
    reduce_bucket(draft, body, b, When::always);
  }
  if (planned.cls.is_tied()) all_reduce(planned.cls.tied);
}

}  // namespace meshwright::compiler
