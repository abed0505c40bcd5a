#include "models/compiler/lower/sharded_units.h"

#include <algorithm>

#include "models/compiler/lower/draft.h"
#include "models/compiler/lower/memory.h"

namespace meshwright::compiler {

namespace {

int buffers_of(Body::Kind body, int buffers) {
  return body == Body::Kind::forward ? buffers : std::min(buffers, backward_buffers);
}

// Returns how many elements of weights are gathered with a unit, or, if `trained`, how many
// elements of gradients are reduced with it. Parameters that are not trained come last.
std::int64_t unit_elements(const StageDraft& draft, int unit, bool trained = false) {
  std::int64_t elements = 0;
  for (const BucketPlan& planned : draft.buckets)
    if (planned.unit == unit && !(trained && planned.bucket.frozen))
      elements += planned.bucket.elements;
  return elements;
}

// Returns the elements of all gather buffers if units use `buffers` of them round-robin, plus those
// of the buffer of weights that several units share. Each buffer is as large as the largest unit
// that it ever holds.
std::int64_t elements_live_with(const StageDraft& draft, int buffers) {
  std::vector<std::int64_t> largest(buffers, 0);
  for (int chunk = 0; chunk < draft.chunks(); ++chunk)
    for (const Body::Kind body : {Body::Kind::forward, Body::Kind::backward}) {
      std::size_t turn = 0;
      for (int unit :
           units_in_order(draft.graph, draft.boundaries, draft.virtual_stage(chunk), body)) {
        const std::int64_t elements = unit_elements(draft, unit);
        if (elements == 0) continue;
        std::int64_t& held = largest[turn++ % buffers_of(body, buffers)];
        held = std::max(held, elements);
      }
    }
  std::int64_t sum = unit_elements(draft, shared_unit);
  for (std::int64_t elements : largest) sum += elements;
  return sum;
}

// Returns the number of gather buffers. With one, a unit is gathered after the previous one has
// been used. With more, that many units are live at once. Units are gathered whole, so the last
// prefetched unit may exceed the cap on live parameters.
int gather_buffers(const StageDraft& draft) {
  const std::int64_t cap = draft.plan.parallelism.max_live_parameters;
  const int units = static_cast<int>(draft.graph.units.size());
  int buffers = least_gather_buffers(draft.plan.parallelism);
  if (!draft.plan.parallelism.overlap_parameters || cap == 0) return buffers;
  while (buffers < units && elements_live_with(draft, buffers) < cap) ++buffers;
  return buffers;
}

// Adds `count` buffers that units use round-robin, and one for parameters that several units share,
// if there are any. Each buffer grows later to the largest unit that it holds.
UnitBuffers add_unit_buffers(StageDraft& draft, std::string_view name, int count) {
  const auto add = [&] {
    return add_buffer(draft, name, MemoryClass::communication, Region::persistent, 0);
  };
  std::vector<int> in_turn;
  for (int i = 0; i < count; ++i) in_turn.push_back(add());
  const bool any_shared = unit_elements(draft, shared_unit) > 0;
  return UnitBuffers(draft.graph.units.size(), std::move(in_turn), any_shared ? add() : -1);
}

// Returns how many units of this stage need a buffer if each has its own.
int kept_buffers(const StageDraft& draft) {
  int count = 0;
  for (int unit = 0; unit < static_cast<int>(draft.graph.units.size()); ++unit)
    count += unit_elements(draft, unit) > 0 ? 1 : 0;
  return count;
}

// Returns an operand in a unit's buffer, from `offset` bytes on. The buffer grows to hold it.
Operand in_unit_buffer(StageDraft& draft, int buffer, std::int64_t offset, const TensorType& type) {
  const Operand part{buffer, offset, type, GroupKind::none};
  std::int64_t& held = draft.buffer(buffer).bytes;
  held = std::max(held, part.offset + type.bytes());
  return part;
}

void gather_bucket(StageDraft& draft, BodyBuilder& body, int b) {
  const BucketPlan& planned = draft.buckets[b];
  const Bucket& bucket = planned.bucket;
  Instruction gather;
  gather.kind = InstructionKind::all_gather;
  gather.stream = Stream::shard_comm;
  gather.group = bucket.shard();
  gather.flat = !draft.plan.parallelism.hierarchical_gather;
  gather.bucket = b;
  if (draft.plan.gathers_once_a_step()) gather.when = When::first_micro_batch;
  gather.inputs = {planned.is_rounded ? planned.own_bits : bucket.own_weights};
  gather.outputs = {in_unit_buffer(draft, draft.units.weights.of(planned.unit),
                                   planned.gathered_offset,
                                   {Shape{bucket.elements}, planned.gathered_type()})};
  if (body.last_compute() < 0) gather.waits.push_back({Wait::Relation::previous_task, -1, -1});
  const int index = body.emit(std::move(gather));
  if (!draft.plan.parallelism.overlap_parameters) body.join_before_next_compute(index);
}

// Gathers a unit. The buckets of a unit were made in the order in which the backward uses them. The
// forward uses them from the last to the first.
void gather_unit(StageDraft& draft, BodyBuilder& body, int unit) {
  std::vector<int> order;
  for (int b = 0; b < static_cast<int>(draft.buckets.size()); ++b)
    if (draft.buckets[b].unit == unit) order.push_back(b);
  if (order.empty()) return;
  if (!body.is_backward()) std::ranges::reverse(order);
  draft.units.weights.take(unit);
  for (int b : order) gather_bucket(draft, body, b);
}

// Gathers the unit at `position` if it is not gathered yet, and the units after it for which there
// are buffers besides the one in use.
void gather_ahead(StageDraft& draft, BodyBuilder& body, const std::vector<int>& units,
                  std::size_t position) {
  UnitBuffers& buffers = draft.units.weights;
  if (position == 0) {
    buffers.begin(buffers_of(body.body().kind, buffers.count()));
    gather_unit(draft, body, shared_unit);
  }
  // Numbers of units with gathered weights: those before `position`, and those visited so far.
  std::size_t before = 0, seen = 0;
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (unit_elements(draft, units[i]) == 0) continue;
    if (i < position) ++before;
    if (seen++ < buffers.taken()) continue;
    if (seen > before + buffers.size()) break;
    gather_unit(draft, body, units[i]);
  }
}

// Gathers each unit once, mostly in the forward body, because its weights are kept. The gathers
// wait for no buffer, because each unit has a buffer of its own.
void gather_kept(StageDraft& draft, BodyBuilder& body, const std::vector<int>& units,
                 std::size_t position) {
  UnitBuffers& buffers = draft.units.weights;
  if (!draft.units.has_shared) gather_unit(draft, body, shared_unit);
  draft.units.has_shared = true;
  const bool ahead = draft.plan.parallelism.overlap_parameters;
  const std::size_t end = ahead ? units.size() : position + 1;
  for (std::size_t i = position; i < end; ++i)
    if (buffers.of(units[i]) < 0) gather_unit(draft, body, units[i]);
}

Operand unit_gradients(StageDraft& draft, const BucketPlan& planned) {
  const Dtype type = planned.bucket.gradients.type.dtype;
  return in_unit_buffer(draft, draft.units.gradients.of(planned.unit),
                        planned.offset * bytes_of(type), {Shape{planned.bucket.elements}, type});
}

// Adds the sums of this micro-batch to those of earlier ones, for the buckets whose sums are in
// `buffer`, or for all buckets if it is -1.
void add_reduced(StageDraft& draft, BodyBuilder& body, int buffer) {
  std::erase_if(draft.units.to_add, [&](int b) {
    const BucketPlan& planned = draft.buckets[b];
    const Operand reduced = unit_gradients(draft, planned);
    if (buffer >= 0 && reduced.buffer != buffer) return false;
    Instruction add;
    add.op = Op::add;
    add.phase = Phase::backward;
    add.inputs = {planned.bucket.gradients, reduced};
    add.outputs = {planned.bucket.gradients};
    body.emit(std::move(add));
    return true;
  });
}

void zero_unit(StageDraft& draft, BodyBuilder& body, int unit) {
  const std::int64_t elements = unit_elements(draft, unit, true);
  if (elements == 0) return;
  UnitBuffers& buffers = draft.units.gradients;
  if (unit != shared_unit && buffers.reused_next() >= 0)
    add_reduced(draft, body, buffers.reused_next());
  const bool first_use = unit == shared_unit || buffers.taken() < buffers.size();
  buffers.take(unit);
  Instruction zero;
  zero.op = Op::zero;
  zero.phase = Phase::backward;
  zero.outputs = {in_unit_buffer(draft, buffers.of(unit), 0,
                                 {Shape{elements}, draft.plan.training.gradient_reduce})};
  const int index = body.emit(std::move(zero));
  if (first_use) draft.units.first_zeros[body.chunk()].push_back(index);
}

}  // namespace

int least_gather_buffers(const Parallelism& parallelism) {
  return parallelism.overlap_parameters && parallelism.max_live_parameters == 0 ? 2 : 1;
}

void place_unit_buffers(StageDraft& draft) {
  if (!draft.works_by_units()) return;
  ShardedUnits& units = draft.units;
  units.first_zeros.resize(draft.chunks());
  units.last_reduction.assign(draft.chunks(), -1);
  const bool kept = draft.plan.parallelism.keeps_gathered;
  if (draft.zero_stage == 3)
    units.weights = add_unit_buffers(draft, "gathered_weights",
                                     kept ? kept_buffers(draft) : gather_buffers(draft));
  if (kept) units.weights.begin(units.weights.count());
  if (draft.reduces_each)
    units.gradients = add_unit_buffers(draft, "unit_gradients", backward_buffers);
}

void enter_unit(StageDraft& draft, BodyBuilder& body, const std::vector<int>& units,
                std::size_t position) {
  if (draft.zero_stage == 3)
    (draft.plan.parallelism.keeps_gathered ? gather_kept : gather_ahead)(draft, body, units,
                                                                         position);
  if (!draft.reduces_each || !body.is_backward()) return;
  if (position == 0) {
    draft.units.gradients.begin(backward_buffers);
    zero_unit(draft, body, shared_unit);
  }
  zero_unit(draft, body, units[position]);
}

void reduce_unit_bucket(StageDraft& draft, BodyBuilder& body, int b) {
  const BucketPlan& planned = draft.buckets[b];
  const Bucket& bucket = planned.bucket;
  Instruction reduce;
  reduce.kind = bucket.sharded ? InstructionKind::reduce_scatter : InstructionKind::all_reduce;
  reduce.stream = Stream::shard_comm;
  reduce.group = bucket.sharded ? bucket.shard() : bucket.rdp();
  reduce.bucket = b;
  reduce.accumulate = bucket.sharded;
  reduce.phase = Phase::backward;
  reduce.inputs = {unit_gradients(draft, planned)};
  reduce.outputs = {bucket.sharded ? bucket.own_gradients : reduce.inputs[0]};
  const int index = body.emit(std::move(reduce));
  if (!bucket.sharded) draft.units.to_add.push_back(b);
  draft.units.last_reduction[body.chunk()] = index;
  if (!draft.plan.parallelism.overlap_gradients) body.join_before_next_compute(index);
}

void finish_units(StageDraft& draft, BodyBuilder& body) {
  for (int b = 0; b < static_cast<int>(draft.buckets.size()); ++b) {
    const BucketPlan& planned = draft.buckets[b];
    if (planned.unit == shared_unit && planned.reduced_each) reduce_unit_bucket(draft, body, b);
  }
  add_reduced(draft, body, -1);
}

void wait_for_unit_reductions(const StageDraft& draft, Instruction& instruction) {
  const std::vector<int>& last = draft.units.last_reduction;
  for (int chunk = 0; chunk < static_cast<int>(last.size()); ++chunk)
    if (last[chunk] >= 0)
      instruction.waits.push_back(
          {Wait::Relation::latest, draft.backward_body(chunk), last[chunk]});
}

void wait_for_earlier_reductions(StageDraft& draft) {
  for (int chunk = 0; chunk < static_cast<int>(draft.units.first_zeros.size()); ++chunk) {
    Body& backward = draft.program.bodies[draft.backward_body(chunk)];
    for (int zero : draft.units.first_zeros[chunk])
      wait_for_unit_reductions(draft, backward.instructions[zero]);
  }
}

}  // namespace meshwright::compiler
