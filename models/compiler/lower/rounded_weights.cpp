#include "models/compiler/lower/rounded_weights.h"

#include "models/compiler/lower/collective.h"
#include "models/compiler/lower/memory.h"

namespace meshwright::compiler {

namespace {

// The groups over whose ranks weights are sharded: `expert_shard` for experts under expert
// parallelism, `shard` for all other weights.
constexpr GroupKind sharers[] = {GroupKind::shard, GroupKind::expert_shard};

std::int64_t rounded_by(const StageDraft& draft, GroupKind group) {
  std::int64_t parameters = 0;
  for (const BucketPlan& planned : draft.buckets)
    if (planned.is_rounded && planned.bucket.shard() == group)
      parameters += std::ssize(planned.bucket.parameters);
  return parameters;
}

Operand place(StageDraft& draft, std::string_view name, MemoryClass cls, const TensorType& type) {
  return {add_buffer(draft, name, cls, Region::persistent, type.bytes()), 0, type, GroupKind::none};
}

Operand values(const Operand& all, std::int64_t first, std::int64_t count) {
  return {all.buffer, first * bytes_of(Dtype::f32), {Shape{count}, Dtype::f32}, GroupKind::none};
}

// Adds buffers for the largest elements and scales of all weights of a group. The values of its
// buckets are contiguous, so that one all-reduce covers them.
void place_values(StageDraft& draft, GroupKind group) {
  const std::int64_t all = rounded_by(draft, group);
  if (all == 0) return;
  const TensorType type{Shape{all}, Dtype::f32};
  const Operand largest = place(draft, "largest_weights", MemoryClass::workspace, type);
  const Operand scales = place(draft, "weight_scales", MemoryClass::workspace, type);
  std::int64_t next = 0;
  for (BucketPlan& planned : draft.buckets) {
    if (!planned.is_rounded || planned.bucket.shard() != group) continue;
    const std::int64_t count = std::ssize(planned.bucket.parameters);
    planned.largest = values(largest, next, count);
    planned.scales = values(scales, next, count);
    next += count;
  }
}

}  // namespace

void place_rounded_weights(StageDraft& draft) {
  for (BucketPlan& planned : draft.buckets)
    if (planned.is_rounded)
      planned.own_bits = place(draft, "weights_in_8_bits", MemoryClass::parameters,
                               {Shape{planned.bucket.shard_elements}, planned.gathered_type()});
  for (GroupKind group : sharers) place_values(draft, group);
  for (std::size_t id = 0; id < draft.graph.tensors.size(); ++id) {
    const Tensor& tensor = draft.graph.tensors[id];
    if (tensor.role != Role::gathered_scale) continue;
    const int member = draft.member_of[tensor.parameter];
    if (member < 0) continue;  // on another stage
    const BucketPlan& planned = draft.buckets[draft.program.parameters[member].bucket];
    const std::vector<int>& parameters = planned.bucket.parameters;
    const auto place_of = std::ranges::find(parameters, member) - parameters.begin();
    Operand& scale = draft.places.own[id];
    scale = planned.scales;
    scale.offset += place_of * bytes_of(Dtype::f32);
    scale.type = tensor.type;
  }
}

void round_own_weights(const StageDraft& draft, BodyBuilder& step_begin) {
  const auto of_bucket = [&](Op op, std::size_t b, std::vector<Operand> inputs,
                             std::vector<Operand> outputs) {
    Instruction instruction;
    instruction.op = op;
    instruction.bucket = static_cast<int>(b);
    instruction.attributes.made = draft.buckets[b].own_bits.type.dtype;
    instruction.inputs = std::move(inputs);
    instruction.outputs = std::move(outputs);
    step_begin.emit(std::move(instruction));
  };
  for (std::size_t b = 0; b < draft.buckets.size(); ++b) {
    const BucketPlan& planned = draft.buckets[b];
    if (planned.is_rounded) of_bucket(Op::amax, b, {planned.bucket.own_weights}, {planned.largest});
  }
  for (GroupKind group : sharers) {
    const std::int64_t count = rounded_by(draft, group);
    if (count == 0) continue;
    const auto first = std::ranges::find_if(draft.buckets, [&](const BucketPlan& planned) {
      return planned.is_rounded && planned.bucket.shard() == group;
    });
    CollectiveCall of_all = all_reduce_in(group, values(first->largest, 0, count));
    of_all.maximum = true;
    emit_collective(draft.plan, step_begin, of_all);
  }
  for (std::size_t b = 0; b < draft.buckets.size(); ++b) {
    const BucketPlan& planned = draft.buckets[b];
    if (planned.is_rounded)
      of_bucket(Op::quantize, b, {planned.bucket.own_weights, planned.largest},
                {planned.own_bits, planned.scales});
  }
}

}  // namespace meshwright::compiler
