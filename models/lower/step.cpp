// What surrounds the micro-batches: sums set to zero before; reductions, norm, optimizer and
// gathers after.
#include "models/lower/stage_lowering.h"

namespace meshwright {

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

Operand scalar(int buffer) { return {buffer, 0, {Shape{1}, Dtype::f64}, GroupKind::none}; }

Operand scale_state(const Program& program) {
  return {program.loss_scale_state_buffer,
          0,
          {Shape{Program::loss_scale_state}, Dtype::f64},
          GroupKind::none};
}

Operand parameter_norms(const Program& program) {
  const auto values = static_cast<std::int64_t>(2 * program.parameters.size());
  return {program.parameter_norms_buffer, 0, {Shape{values}, Dtype::f64}, GroupKind::none};
}

}  // namespace

void StageLowering::emit_collective(BodyBuilder& body, InstructionKind kind, GroupKind group,
                                    const Operand& input, const Operand& output, When when,
                                    int bucket) {
  Instruction instruction;
  instruction.kind = kind;
  instruction.stream = Stream::shard_comm;
  instruction.group = group;
  instruction.when = when;
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
  if (bucket.sharded) {
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

// ZeRO 2 and 3 have reduced over the shard group already; the rest works on the own parts.
void StageLowering::reduce_shards_at_end(BodyBuilder& body) {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const Operand& own = buckets_[b].bucket.own_gradients;
    const auto all_reduce = [&](GroupKind group) {
      emit_collective(body, InstructionKind::all_reduce, group, own, own, When::always,
                      static_cast<int>(b));
    };
    if (buckets_[b].cls == BucketClass::partial) all_reduce(GroupKind::tensor);
    if (degrees_.shard < degrees_.rdp()) all_reduce(GroupKind::replica);
    if (buckets_[b].cls == BucketClass::tied) all_reduce(GroupKind::embedding);
  }
}

void StageLowering::write_begin() {
  program_.bodies[0] = {Body::Kind::step_begin, -1, {}};
  BodyBuilder body(program_, 0);
  Instruction zero;
  zero.op = Op::zero;
  zero.outputs = {scalar(program_.loss_buffer), scalar(program_.norm_buffer)};
  for (const BucketPlan& planned : buckets_) zero.outputs.push_back(planned.bucket.gradients);
  if (program_.parameter_norms_buffer >= 0) zero.outputs.push_back(parameter_norms(program_));
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
    if (zero_stage_ >= 2)
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

void StageLowering::write_end() {
  program_.bodies[at(end_body())] = {Body::Kind::step_end, -1, {}};
  BodyBuilder body(program_, end_body());
  if (zero_stage_ >= 2) {
    reduce_shards_at_end(body);
  } else {
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      const bool tied = buckets_[b].cls == BucketClass::tied;
      if (tied || !plan_.parallelism.overlap_gradients)
        reduce_bucket(body, static_cast<int>(b), When::always);
      const Operand& own = buckets_[b].bucket.own_gradients;
      if (tied)
        emit_collective(body, InstructionKind::all_reduce, GroupKind::embedding, own, own,
                        When::always, static_cast<int>(b));
    }
  }
  measure_norm(body);
  if (plan_.training.scales_loss()) update_loss_scale(body);
  if (plan_.training.optimizer == OptimizerKind::lamb) measure_parameters(body);
  step_optimizer(body);
}

// What the next step's loss is multiplied by, and whether this step is skipped: optimizer_step
// looks at the state.
void StageLowering::update_loss_scale(BodyBuilder& body) {
  Instruction update;
  update.op = Op::update_loss_scale;
  update.phase = Phase::backward;
  update.inputs = {scalar(program_.norm_buffer)};
  update.outputs = {scale_state(program_),
                    {program_.loss_scale_buffer, 0, {Shape{1}, Dtype::f32}, GroupKind::none}};
  body.emit(std::move(update));
}

std::vector<Operand> StageLowering::states_of(const Bucket& bucket) const {
  std::vector<Operand> states = {bucket.first_moment};
  if (bucket.second_moment.buffer >= 0) states.push_back(bucket.second_moment);
  return states;
}

// lamb: moments first, with the norms of what this rank holds of each parameter; the ranks of this
// stage that hold the rest of it (parts of the tensor group, shards) add theirs.
void StageLowering::measure_parameters(BodyBuilder& body) {
  const Operand norms = parameter_norms(program_);
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const Bucket& bucket = buckets_[b].bucket;
    Instruction measure;
    measure.op = Op::lamb_norms;
    measure.phase = Phase::backward;
    measure.bucket = static_cast<int>(b);
    measure.inputs = {bucket.own_gradients, bucket.master, scalar(program_.norm_buffer)};
    if (plan_.training.scales_loss()) measure.inputs.push_back(scale_state(program_));
    measure.outputs = states_of(bucket);  // read as well as written
    for (const Operand& state : measure.outputs) measure.inputs.push_back(state);
    measure.outputs.push_back(norms);
    body.emit(std::move(measure));
  }
  for (const auto& [group, ranks] :
       {std::pair{GroupKind::tensor, degrees_.tensor}, std::pair{GroupKind::shard, degrees_.shard}})
    if (ranks > 1)
      emit_collective(body, InstructionKind::all_reduce, group, norms, norms, When::always, -1);
}

void StageLowering::step_optimizer(BodyBuilder& body) {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const Bucket& bucket = buckets_[b].bucket;
    Instruction step;
    step.kind = InstructionKind::optimizer_step;
    step.bucket = static_cast<int>(b);
    step.inputs = {bucket.own_gradients, scalar(program_.norm_buffer)};
    if (plan_.training.scales_loss()) step.inputs.push_back(scale_state(program_));
    if (program_.parameter_norms_buffer >= 0) step.inputs.push_back(parameter_norms(program_));
    step.outputs = {bucket.own_weights, bucket.master};
    for (const Operand& state : states_of(bucket)) step.outputs.push_back(state);
    body.emit(std::move(step));
    if (bucket.sharded && zero_stage_ <= 2)
      emit_collective(body, InstructionKind::all_gather, GroupKind::shard, bucket.own_weights,
                      bucket.weights, When::always, static_cast<int>(b));
  }
}

}  // namespace meshwright
