// What surrounds the micro-batches: sums set to zero before; reductions, norm, optimizer and
// gathers after.
#include "models/lower/stage_lowering.h"

namespace meshwright {

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

Operand scalar(int buffer) { return {buffer, 0, {Shape{1}, Dtype::f64}, GroupKind::none}; }

}  // namespace

void StageLowering::emit_collective(BodyBuilder& body, InstructionKind kind, GroupKind group,
                                    const Operand& input, const Operand& output, When when,
                                    int bucket) {
  Instruction instruction;
  instruction.kind = kind;
  instruction.stream = Stream::shard_comm;
  instruction.group = group;
  instruction.when = when;
  instruction.flat = kind == InstructionKind::all_gather && !plan_.parallelism.hierarchical_gather;
  instruction.bucket = bucket;
  instruction.phase = Phase::backward;
  instruction.inputs = {input};
  instruction.outputs = {output};
  if (body.last_compute() < 0) instruction.waits.push_back({Wait::Relation::previous_task, -1, -1});
  body.emit(std::move(instruction));
}

// ZeRO 0 and 1: tensor group first where each rank saw a share of the rows, then the data-parallel
// ranks. Returns the last instruction written, -1 when there is nothing to reduce.
int StageLowering::reduce_bucket(BodyBuilder& body, int b, When when) {
  const Bucket& bucket = buckets_[at(b)].bucket;
  const int before = body.size();
  if (buckets_[at(b)].cls == BucketClass::partial)
    emit_collective(body, InstructionKind::all_reduce, GroupKind::tensor, bucket.gradients,
                    bucket.gradients, when, b);
  if (!bucket.owner.everybody()) {
    emit_collective(body, InstructionKind::reduce, GroupKind::rdp, bucket.gradients,
                    bucket.gradients, when, b);
    body.body().instructions.back().root = bucket.owner.rdp;
  } else if (bucket.sharded) {
    emit_collective(body, InstructionKind::reduce_scatter, GroupKind::shard, bucket.gradients,
                    bucket.own_gradients, when, b);
    if (degrees_.shard < degrees_.rdp())
      emit_collective(body, InstructionKind::all_reduce, GroupKind::replica, bucket.own_gradients,
                      bucket.own_gradients, when, b);
  } else if (degrees_.rdp() > 1) {
    emit_collective(body, InstructionKind::all_reduce, GroupKind::rdp, bucket.gradients,
                    bucket.gradients, when, b);
  }
  return body.size() > before ? body.size() - 1 : -1;
}

// What the backward bodies have left to do. ZeRO 2 and 3 have reduced over the shard group already,
// and go on with the own parts.
void StageLowering::finish_reduction(BodyBuilder& body, int b) {
  const BucketPlan& planned = buckets_[at(b)];
  const Operand& own = planned.bucket.own_gradients;
  const auto all_reduce = [&](GroupKind group) {
    emit_collective(body, InstructionKind::all_reduce, group, own, own, When::always, b);
  };
  const bool tied = planned.cls == BucketClass::tied;
  if (planned.zero >= 2) {
    if (planned.cls == BucketClass::partial) all_reduce(GroupKind::tensor);
    if (degrees_.shard < degrees_.rdp()) all_reduce(GroupKind::replica);
  } else if (tied || !plan_.parallelism.overlap_gradients) {
    reduce_bucket(body, b, When::always);
  }
  if (tied) all_reduce(GroupKind::embedding);
}

void StageLowering::write_begin() {
  program_.bodies[0] = {Body::Kind::step_begin, -1, {}};
  BodyBuilder body(program_, 0);
  Instruction zero;
  zero.op = Op::zero;
  zero.outputs = {scalar(program_.loss_buffer), scalar(program_.norm_buffer)};
  for (const BucketPlan& planned : buckets_) zero.outputs.push_back(planned.bucket.gradients);
  body.emit(std::move(zero));
}

// ||g||^2 of the parts that this rank owns, summed over the ranks that together hold one whole
// gradient.
void StageLowering::measure_norm(BodyBuilder& body) {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    Instruction squares;
    squares.op = Op::sum_of_squares;
    squares.phase = Phase::backward;
    squares.bucket = static_cast<int>(b);
    squares.inputs = {buckets_[b].bucket.own_gradients};
    squares.outputs = {scalar(program_.norm_buffer)};
    const RunId done = bucket_done_[b];
    if (done.instruction >= 0 && done.task >= 0)
      squares.waits.push_back({Wait::Relation::latest, done.task, done.instruction});
    if (buckets_[b].zero >= 2)
      for (int chunk = 0; chunk < plan_.parallelism.virtual_stages; ++chunk)
        if (last_reduction_[at(chunk)] >= 0)
          squares.waits.push_back(
              {Wait::Relation::latest, backward_body(chunk), last_reduction_[at(chunk)]});
    body.emit(std::move(squares));
  }
  const bool several = degrees_.pipeline * degrees_.tensor * degrees_.shard > 1;
  const Operand norm = scalar(program_.norm_buffer);
  if (several)
    emit_collective(body, InstructionKind::all_reduce, GroupKind::norm, norm, norm, When::always,
                    -1);
  const Operand loss = scalar(program_.loss_buffer);
  if (degrees_.pipeline > 1)
    emit_collective(body, InstructionKind::all_reduce, GroupKind::pipeline, loss, loss,
                    When::always, -1);
  if (degrees_.rdp() > 1)
    emit_collective(body, InstructionKind::all_reduce, GroupKind::rdp, loss, loss, When::always,
                    -1);
}

// Each rank updates what it owns; then everybody gets the weights of all. Flat shards are gathered
// while the next bucket is updated; of whole parameters every owner first updates its own.
void StageLowering::step_and_share(BodyBuilder& body) {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const Bucket& bucket = buckets_[b].bucket;
    Instruction step;
    step.kind = InstructionKind::optimizer_step;
    step.bucket = static_cast<int>(b);
    step.inputs = {bucket.own_gradients, scalar(program_.norm_buffer)};
    step.outputs = {bucket.own_weights, bucket.master, bucket.first_moment};
    if (bucket.second_moment.buffer >= 0) step.outputs.push_back(bucket.second_moment);
    body.emit(std::move(step));
    if (bucket.sharded && buckets_[b].zero <= 2)
      emit_collective(body, InstructionKind::all_gather, GroupKind::shard, bucket.own_weights,
                      bucket.weights, When::always, static_cast<int>(b));
  }
  const Mesh mesh(degrees_, plan_.parallelism.placement);
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const Bucket& bucket = buckets_[b].bucket;
    const Owner& owner = bucket.owner;
    if (owner.everybody()) continue;
    const bool alike = owner.tensor >= 0;  // on all tensor ranks: one of them sends to all
    const GroupKind group = alike ? GroupKind::dp : GroupKind::rdp;
    emit_collective(body, InstructionKind::broadcast, group, bucket.weights, bucket.weights,
                    When::always, static_cast<int>(b));
    body.body().instructions.back().root =
        mesh.index_in(group, mesh.rank({stage_, std::max(0, owner.tensor), owner.rdp}));
  }
}

void StageLowering::write_end() {
  program_.bodies[at(end_body())] = {Body::Kind::step_end, -1, {}};
  BodyBuilder body(program_, end_body());
  for (std::size_t b = 0; b < buckets_.size(); ++b) finish_reduction(body, static_cast<int>(b));
  measure_norm(body);
  step_and_share(body);
}

}  // namespace meshwright
