// ZeRO 2 and 3: weights are gathered unit by unit before use (3), gradients reduce-scattered unit
// by unit after it. Two buffers in turn: while one unit computes, the next is gathered and the last
// one reduced.
#include <algorithm>

#include "models/core/error.h"
#include "models/lower/stage_lowering.h"

namespace meshwright {

namespace {
std::size_t at(int index) { return static_cast<std::size_t>(index); }
}  // namespace

std::int64_t StageLowering::unit_elements(int unit) const {
  std::int64_t elements = 0;
  for (const BucketPlan& planned : buckets_)
    if (planned.unit == unit) elements += planned.bucket.elements;
  return elements;
}

void StageLowering::gather_unit(BodyBuilder& body, int unit) {
  if (unit_elements(unit) == 0) return;
  int slot = shared_slot;
  if (unit != shared_unit) {
    slot = gathers_++ % 2;
    std::replace(gather_slot_.begin(), gather_slot_.end(), slot, -1);
    gather_slot_[at(unit)] = slot;
  }
  std::int64_t offset = 0;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const Bucket& bucket = buckets_[b].bucket;
    if (buckets_[b].unit != unit) continue;
    Instruction gather;
    gather.kind = InstructionKind::all_gather;
    gather.stream = Stream::shard_comm;
    gather.group = GroupKind::shard;
    gather.bucket = static_cast<int>(b);
    gather.inputs = {bucket.own_weights};
    gather.outputs = {{gather_buffer_[slot],
                       offset,
                       {Shape{bucket.elements}, bucket.weights.type.dtype},
                       GroupKind::none}};
    offset += gather.outputs[0].type.bytes();
    std::int64_t& held = buffer(gather_buffer_[slot]).bytes;
    held = std::max(held, offset);
    if (body.last_compute() < 0) gather.waits.push_back({Wait::Relation::previous_task, -1, -1});
    const int index = body.emit(std::move(gather));
    if (!plan_.parallelism.overlap_parameters) body.join_before_next_compute(index);
  }
}

void StageLowering::zero_unit(BodyBuilder& body, int unit, bool reuses_earlier_task) {
  const std::int64_t elements = unit_elements(unit);
  if (elements == 0) return;
  const int slot = unit == shared_unit ? shared_slot : gradient_slot_[at(unit)];
  Instruction zero;
  zero.op = Op::zero;
  zero.phase = Phase::backward;
  zero.outputs = {{gradient_buffer_[slot],
                   0,
                   {Shape{elements}, plan_.training.gradient_reduce},
                   GroupKind::none}};
  std::int64_t& held = buffer(gradient_buffer_[slot]).bytes;
  held = std::max(held, zero.outputs[0].type.bytes());
  const int index = body.emit(std::move(zero));
  if (reuses_earlier_task) first_zeros_[at(body.body().chunk)].push_back(index);
}

void StageLowering::enter_unit(BodyBuilder& body, const std::vector<int>& units,
                               std::size_t position, bool backward) {
  if (zero_stage_ < 2) return;
  const int unit = units[position];
  if (zero_stage_ == 3) {
    if (position == 0) {
      std::fill(gather_slot_.begin(), gather_slot_.end(), -1);
      gather_unit(body, shared_unit);
      gather_unit(body, unit);
    }
    const bool prefetch = plan_.parallelism.overlap_parameters;
    if (!prefetch && position > 0) gather_unit(body, unit);
    if (prefetch && position + 1 < units.size()) gather_unit(body, units[position + 1]);
  }
  if (!backward) return;
  if (position == 0) zero_unit(body, shared_unit, true);
  const int slot = gradients_++ % 2;
  std::replace(gradient_slot_.begin(), gradient_slot_.end(), slot, -1);
  gradient_slot_[at(unit)] = slot;
  zero_unit(body, unit, position < 2);
}

void StageLowering::leave_unit(BodyBuilder& body, int unit) {
  if (zero_stage_ < 2) return;
  std::int64_t offset = 0;
  const int slot = unit == shared_unit ? shared_slot : gradient_slot_[at(unit)];
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const Bucket& bucket = buckets_[b].bucket;
    if (buckets_[b].unit != unit) continue;
    Instruction reduce;
    reduce.kind = InstructionKind::reduce_scatter;
    reduce.stream = Stream::shard_comm;
    reduce.group = GroupKind::shard;
    reduce.bucket = static_cast<int>(b);
    reduce.accumulate = true;
    reduce.phase = Phase::backward;
    reduce.inputs = {{gradient_buffer_[slot],
                      offset,
                      {Shape{bucket.elements}, bucket.gradients.type.dtype},
                      GroupKind::none}};
    reduce.outputs = {bucket.own_gradients};
    offset += reduce.inputs[0].type.bytes();
    const int index = body.emit(std::move(reduce));
    last_reduction_[at(body.body().chunk)] = index;
    if (!plan_.parallelism.overlap_gradients) body.join_before_next_compute(index);
  }
}

// The first two units of a backward task reuse buffers that the task before may still be reducing
// from.
void StageLowering::wait_for_earlier_reductions() {
  const int chunks = plan_.parallelism.virtual_stages;
  for (int chunk = 0; chunk < chunks; ++chunk)
    for (int zero : first_zeros_[at(chunk)])
      for (int other = 0; other < chunks; ++other)
        if (last_reduction_[at(other)] >= 0)
          program_.bodies[at(backward_body(chunk))].instructions[at(zero)].waits.push_back(
              {Wait::Relation::latest, backward_body(other), last_reduction_[at(other)]});
}

}  // namespace meshwright
