#include "models/compiler/lower/bucket_buffers.h"

#include <algorithm>

#include "models/compiler/lower/draft.h"
#include "models/compiler/lower/memory.h"
#include "models/compiler/lower/offload_states.h"
#include "models/core/round_up.h"
#include "models/program/factors.h"

namespace meshwright::compiler {

namespace {

// Adds a buffer for a part of a bucket or for its snapshot, and returns its operand. If a bucket
// has an owner, only the owner has optimizer states and snapshots of it.
Operand place(StageDraft& draft, const Bucket& bucket, std::string_view name, MemoryClass cls,
              const TensorType& type) {
  const bool states = cls == MemoryClass::optimizer || cls == MemoryClass::snapshot;
  const bool owned = states && !bucket.owner.everybody();
  const bool on_host = (cls == MemoryClass::snapshot && draft.device.snapshot_on_host) ||
                       (cls == MemoryClass::optimizer && offloads_states(draft.plan));
  const Region region = on_host ? Region::host : owned ? Region::owned : Region::persistent;
  const int id = add_buffer(draft, name, cls, region, type.bytes());
  if (owned) draft.buffer(id).owner = bucket.owner;
  return {id, 0, type, GroupKind::none};
}

// Returns the operand of this rank's shard of a bucket's weights or gradients. Their buffer holds
// either the whole bucket or only this shard.
Operand own_part(const Bucket& bucket, const Operand& placed) {
  Operand part = placed;
  part.type.shape = Shape{bucket.shard_elements};
  if (part.type.shape != placed.type.shape) part.part_of = bucket.shard();
  return part;
}

void place_parts(StageDraft& draft, const BucketPlan& planned, Bucket& bucket) {
  for (const BucketPart& part : parts_of(planned, draft.plan.training))
    bucket.*part.operand = place(draft, bucket, part.name, part.cls, part.type);
  bucket.own_weights = own_part(bucket, bucket.weights);
  if (bucket.master.buffer < 0) bucket.master = bucket.own_weights;
  if (!bucket.frozen) bucket.own_gradients = own_part(bucket, bucket.gradients);
}

// Returns how many elements of its local shard a rank saves in a snapshot: all of them, or an equal
// part, rounded up, if several ranks have the same shard. Returns 0 if another stage saves the
// whole bucket or it is not trained.
std::int64_t snapshot_slice(const StageDraft& draft, const Bucket& bucket) {
  const bool saved_elsewhere = std::ranges::all_of(
      bucket.parameters, [&](int index) { return draft.program.parameters[index].copy_of_tied; });
  if (saved_elsewhere || bucket.frozen) return 0;
  if (!bucket.owner.everybody()) return bucket.shard_elements;
  const std::int64_t replicas = replicas_of(draft.degrees, bucket);
  const std::int64_t slice = (bucket.shard_elements + replicas - 1) / replicas;
  return is_in_blocks(draft.plan.training.moments) ? round_up(slice, moment_block) : slice;
}

void place_snapshot(StageDraft& draft, Bucket& bucket) {
  const std::int64_t slice = snapshot_slice(draft, bucket);
  if (slice == 0) return;
  bucket.snapshot =
      place(draft, bucket, "snapshot", MemoryClass::snapshot,
            {Shape{draft.plan.training.saved_states(), slice}, draft.plan.training.exact_type()});
}

void place_scalars(StageDraft& draft) {
  const auto add = [&](std::string_view name, MemoryClass cls, std::int64_t bytes) {
    return add_buffer(draft, name, cls, Region::persistent, bytes);
  };
  Program& program = draft.program;
  program.norm_buffer = add("squared_norm", MemoryClass::workspace, 8);
  program.loss_buffer = add("loss_sum", MemoryClass::workspace, 8);
  if (!draft.graph.ahead.empty())
    program.mtp_loss_buffer = add("mtp_loss_sums", MemoryClass::workspace,
                                  static_cast<std::int64_t>(8 * draft.graph.ahead.size()));
  if (draft.plan.training.scales_loss()) {
    program.loss_scale_buffer = add("loss_scale", MemoryClass::workspace, 4);
    program.loss_scale_state_buffer = add("loss_scale_state", MemoryClass::workspace,
                                          std::int64_t{8} * Program::loss_scale_state);
  }
  if (measures_parameters(draft.plan.training.optimizer))
    program.parameter_norms_buffer = add("parameter_norms", MemoryClass::optimizer,
                                         static_cast<std::int64_t>(16 * program.parameters.size()));
}

// Adds adafactor's row and column factors, and their sums. Every rank that has a part of a matrix
// has all factors of it. Does nothing for other optimizers.
void place_factors(StageDraft& draft) {
  if (draft.plan.training.optimizer != OptimizerKind::adafactor) return;
  Program& program = draft.program;
  std::int64_t all = 0;
  for (StageParameter& member : program.parameters) {
    if (!draft.buckets[member.bucket].bucket.factored) continue;
    member.first_factor = all;
    all += factor_count(factored_shape(member.parameter));
  }
  if (all == 0) return;
  program.factors_buffer = add_buffer(draft, "factors", MemoryClass::optimizer, Region::persistent,
                                      all * bytes_of(Dtype::f32));
  program.factor_sums_buffer = add_buffer(draft, "factor_sums", MemoryClass::workspace,
                                          Region::persistent, all * bytes_of(Dtype::f64));
}

// Adds buffers for the largest elements of the tensors that this stage's nodes round with delayed
// scales, and for their histories.
void place_largest(StageDraft& draft) {
  const Graph& graph = draft.graph;
  Program& program = draft.program;
  std::vector<char> is_here(graph.tensors.size(), 0);
  for (int chunk = 0; chunk < draft.chunks(); ++chunk)
    for (int index : draft.boundaries.nodes[draft.virtual_stage(chunk)])
      for (int id : graph.nodes[index].inputs) is_here[id] = 1;
  std::vector<int> tensors;
  for (const RoundedTensor& each : graph.rounded) {
    if (!is_here[each.largest]) continue;
    program.rounded.push_back(each.name);
    tensors.push_back(each.largest);
  }
  if (tensors.empty()) return;
  const auto add = [&](std::string_view name, std::int64_t elements) {
    return add_buffer(draft, name, MemoryClass::workspace, Region::persistent,
                      elements * bytes_of(Dtype::f32));
  };
  const auto count = static_cast<std::int64_t>(tensors.size());
  program.largest_buffer = add("largest", 2 * count);
  program.history_buffer = add("history", count * Program::history_steps);
  for (std::size_t i = 0; i < tensors.size(); ++i)
    draft.places.own[tensors[i]] = {program.largest_buffer,
                                    static_cast<std::int64_t>(i) * 2 * bytes_of(Dtype::f32),
                                    graph.tensor(tensors[i]).type, GroupKind::none};
}

// Adds the counters of expert choices for the layers of this stage whose router has a bias that the
// choices move. If loads are measured, all layers of the model get counters on every stage, so that
// the counts of all stages can be added.
void place_choice_counts(StageDraft& draft) {
  const Training& training = draft.plan.training;
  const bool moves = training.router_bias_update_rate > 0;
  if (!moves && !training.measure_expert_load) return;
  Program& program = draft.program;
  std::int64_t all = 0;
  for (const Node& node : draft.graph.nodes) {
    if (node.op != Op::route || node.phase != Phase::forward) continue;
    if (only_balances(node.attributes)) continue;
    const int member = moves && node.inputs.size() > 1
                           ? draft.member_of[draft.graph.tensor(node.inputs[1]).parameter]
                           : -1;
    if (!training.measure_expert_load && member < 0) continue;
    if (member >= 0) program.parameters[member].first_count = all;
    draft.first_count[node.module] = all;
    all += node.attributes.experts;
    if (training.measure_expert_load) ++program.counted_routers;
  }
  if (all > 0)
    program.choice_counts_buffer = add_buffer(draft, "choice_counts", MemoryClass::workspace,
                                              Region::persistent, all * bytes_of(Dtype::f64));
}

}  // namespace

std::vector<BucketPart> parts_of(const BucketPlan& planned, const Training& training) {
  const Bucket& bucket = planned.bucket;
  std::vector<BucketPart> parts;
  const auto add = [&](std::string_view name, MemoryClass cls, bool is_cut, Dtype dtype,
                       Operand Bucket::*operand) {
    const Shape shape{is_cut ? bucket.shard_elements : bucket.elements};
    parts.push_back({name, cls, {shape, dtype}, operand});
  };
  const auto add_state = [&](std::string_view name, Dtype dtype, Operand Bucket::*operand) {
    add(name, MemoryClass::optimizer, true, dtype, operand);
  };
  add("weights", MemoryClass::parameters, planned.zero == 3, planned.storage, &Bucket::weights);
  if (bucket.frozen) return parts;
  add("gradients", MemoryClass::gradients, planned.reduced_each && bucket.sharded,
      training.gradient_reduce, &Bucket::gradients);
  if (const std::optional<Dtype> master = training.master_type())
    add_state("master", *master, &Bucket::master);
  if (has_first_moment(training.optimizer))
    add_state("first_moment", training.moments, &Bucket::first_moment);
  if (has_second_moment(training.optimizer) && !bucket.matrices && !bucket.factored)
    add_state("second_moment", second_moment_type(training.moments), &Bucket::second_moment);
  if (training.averages()) add_state("average", training.exact_type(), &Bucket::average);
  return parts;
}

void place_buckets(StageDraft& draft) {
  for (BucketPlan& planned : draft.buckets) {
    place_parts(draft, planned, planned.bucket);
    if (draft.plan.snapshot) place_snapshot(draft, planned.bucket);
  }
  cut_states(draft);
  place_scalars(draft);
  place_factors(draft);
  place_largest(draft);
  place_choice_counts(draft);
}

}  // namespace meshwright::compiler
