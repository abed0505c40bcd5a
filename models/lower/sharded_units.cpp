// ZeRO 2 and 3: weights are gathered unit by unit before use (3), gradients reduce-scattered bucket
// by bucket as they are ready. While one unit computes, the next ones are gathered, as many as the
// cap on live parameters allows (in backward one), and the one before is reduced.
#include <algorithm>

#include "models/core/error.h"
#include "models/lower/stage_lowering.h"

namespace meshwright {

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// In backward gradients are reduced on the stream of the gathers, and units wait for both: weights
// of units further ahead would keep the gradients of this one waiting.
constexpr int backward_buffers = 2;

int buffers_of(Body::Kind body, int buffers) {
  return body == Body::Kind::forward ? buffers : std::min(buffers, backward_buffers);
}

}  // namespace

// Under ZeRO 3 and 2 that of the weights and that of the gradients are the same.
std::int64_t StageLowering::unit_elements(int unit) const {
  std::int64_t elements = 0;
  for (const BucketPlan& planned : buckets_)
    if (planned.unit == unit) elements += planned.bucket.elements;
  return elements;
}

// Elements of all gather buffers when `buffers` of them are used in turn: each as large as the
// largest unit that it ever holds.
std::int64_t StageLowering::elements_live_with(int buffers) const {
  std::vector<std::int64_t> largest(at(buffers), 0);
  for (int chunk = 0; chunk < plan_.parallelism.virtual_stages; ++chunk)
    for (const Body::Kind body : {Body::Kind::forward, Body::Kind::backward}) {
      std::size_t turn = 0;
      for (int unit : units_in_order(virtual_stage(chunk), body)) {
        const std::int64_t elements = unit_elements(unit);
        if (elements == 0) continue;
        std::int64_t& held = largest[turn++ % at(buffers_of(body, buffers))];
        held = std::max(held, elements);
      }
    }
  std::int64_t sum = unit_elements(shared_unit);
  for (std::int64_t elements : largest) sum += elements;
  return sum;
}

// One: a unit is gathered when the one before has been used. More: as many are live at once. Units
// are whole: the one that reaches the cap may exceed it, and is the last to be prefetched.
int StageLowering::gather_buffers() const {
  const std::int64_t cap = plan_.parallelism.max_live_parameters;
  if (!plan_.parallelism.overlap_parameters) return 1;
  if (cap == 0) return 2;
  const int units = static_cast<int>(graph_.units.size());
  int buffers = 1;
  while (buffers < units && elements_live_with(buffers) < cap) ++buffers;
  return buffers;
}

// In backward the buckets of a unit are used in the order in which they were made, in forward from
// the last to the first.
void StageLowering::gather_unit(BodyBuilder& body, int unit, bool backward) {
  std::vector<std::size_t> order;
  for (std::size_t b = 0; b < buckets_.size(); ++b)
    if (buckets_[b].unit == unit) order.push_back(b);
  if (order.empty()) return;
  if (!backward) std::reverse(order.begin(), order.end());
  gathered_.take(unit);
  for (std::size_t b : order) {
    const Bucket& bucket = buckets_[b].bucket;
    const Dtype storage = bucket.weights.type.dtype;
    Instruction gather;
    gather.kind = InstructionKind::all_gather;
    gather.stream = Stream::shard_comm;
    gather.group = bucket.shard();
    gather.flat = !plan_.parallelism.hierarchical_gather;
    gather.bucket = static_cast<int>(b);
    gather.inputs = {bucket.own_weights};
    gather.outputs = {{gathered_.of(unit),
                       buckets_[b].offset * bytes_of(storage),
                       {Shape{bucket.elements}, storage},
                       GroupKind::none}};
    std::int64_t& held = buffer(gathered_.of(unit)).bytes;
    held = std::max(held, gather.outputs[0].offset + gather.outputs[0].type.bytes());
    if (body.last_compute() < 0) gather.waits.push_back({Wait::Relation::previous_task, -1, -1});
    const int index = body.emit(std::move(gather));
    if (!plan_.parallelism.overlap_parameters) body.join_before_next_compute(index);
  }
}

void StageLowering::zero_unit(BodyBuilder& body, int unit) {
  const std::int64_t elements = unit_elements(unit);
  if (elements == 0) return;
  const bool first_use = unit == shared_unit || unit_gradients_.taken() < unit_gradients_.size();
  unit_gradients_.take(unit);
  Instruction zero;
  zero.op = Op::zero;
  zero.phase = Phase::backward;
  zero.outputs = {{unit_gradients_.of(unit),
                   0,
                   {Shape{elements}, plan_.training.gradient_reduce},
                   GroupKind::none}};
  std::int64_t& held = buffer(unit_gradients_.of(unit)).bytes;
  held = std::max(held, zero.outputs[0].type.bytes());
  const int index = body.emit(std::move(zero));
  if (first_use) first_zeros_[at(body.body().chunk)].push_back(index);
}

// Gathers the unit at `position`, unless that has been done, and those after it for which there are
// buffers: all but the one that is in use.
void StageLowering::gather_ahead(BodyBuilder& body, const std::vector<int>& units,
                                 std::size_t position, bool backward) {
  if (position == 0) {
    gathered_.begin(buffers_of(body.body().kind, gathered_.count()));
    gathered_units_ = 0;
    gather_unit(body, shared_unit, backward);
  }
  std::size_t before = 0, seen = 0;  // of the units that are gathered at all
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (unit_elements(units[i]) == 0) continue;
    if (i < position) ++before;
    if (seen++ < gathered_units_) continue;
    if (seen > before + gathered_.size()) break;
    gather_unit(body, units[i], backward);
    ++gathered_units_;
  }
}

void StageLowering::enter_unit(BodyBuilder& body, const std::vector<int>& units,
                               std::size_t position, bool backward) {
  if (zero_stage_ < 2) return;
  if (zero_stage_ == 3) gather_ahead(body, units, position, backward);
  if (!backward) return;
  if (position == 0) {
    unit_gradients_.begin(backward_buffers);
    zero_unit(body, shared_unit);
  }
  zero_unit(body, units[position]);
}

void StageLowering::reduce_unit_bucket(BodyBuilder& body, int b) {
  const BucketPlan& planned = buckets_[at(b)];
  const Bucket& bucket = planned.bucket;
  const Dtype sums = bucket.gradients.type.dtype;
  Instruction reduce;
  reduce.kind = InstructionKind::reduce_scatter;
  reduce.stream = Stream::shard_comm;
  reduce.group = bucket.shard();
  reduce.bucket = b;
  reduce.accumulate = true;
  reduce.phase = Phase::backward;
  reduce.inputs = {{unit_gradients_.of(planned.unit),
                    planned.offset * bytes_of(sums),
                    {Shape{bucket.elements}, sums},
                    GroupKind::none}};
  reduce.outputs = {bucket.own_gradients};
  const int index = body.emit(std::move(reduce));
  last_reduction_[at(body.body().chunk)] = index;
  if (!plan_.parallelism.overlap_gradients) body.join_before_next_compute(index);
}

void StageLowering::reduce_shared_unit(BodyBuilder& body) {
  for (std::size_t b = 0; b < buckets_.size(); ++b)
    if (buckets_[b].unit == shared_unit) reduce_unit_bucket(body, static_cast<int>(b));
}

// The first units of a backward task reuse buffers that the task before may still be reducing from.
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
