// What surrounds the micro-batches: sums set to zero before; reductions, norm, optimizer and
// gathers after.
#include <algorithm>

#include "models/lower/stage_lowering.h"
#include "models/plan/optimizer_scratch.h"

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
  instruction.flat = kind != InstructionKind::all_gather || !plan_.parallelism.hierarchical_gather;
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
  if (buckets_[at(b)].cls.partial)
    emit_collective(body, InstructionKind::all_reduce, GroupKind::tensor, bucket.gradients,
                    bucket.gradients, when, b);
  if (!bucket.owner.everybody()) {
    emit_collective(body, InstructionKind::reduce, GroupKind::rdp, bucket.gradients,
                    bucket.gradients, when, b);
    body.body().instructions.back().root = bucket.owner.rdp;
  } else if (bucket.sharded) {
    emit_collective(body, InstructionKind::reduce_scatter, bucket.shard(), bucket.gradients,
                    bucket.own_gradients, when, b);
    if (replicas_of(bucket) > 1)
      emit_collective(body, InstructionKind::all_reduce, bucket.replica(), bucket.own_gradients,
                      bucket.own_gradients, when, b);
  } else if (replicas_of(bucket) > 1) {
    emit_collective(body, InstructionKind::all_reduce, bucket.rdp(), bucket.gradients,
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
  if (planned.zero >= 2) {
    if (planned.cls.partial) all_reduce(GroupKind::tensor);
    if (replicas_of(planned.bucket) > 1) all_reduce(planned.bucket.replica());
  } else if (planned.cls.tied || !plan_.parallelism.overlap_gradients) {
    reduce_bucket(body, b, When::always);
  }
  if (planned.cls.tied) all_reduce(GroupKind::embedding);
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
// gradient. With experts of their own, ranks hold unlike shares of different parameters: then over
// all ranks, of which the first with each part counts it.
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
  const bool by_experts = degrees_.expert > 1;
  const bool several = degrees_.pipeline * degrees_.tensor * degrees_.shard > 1 || by_experts;
  const Operand norm = scalar(program_.norm_buffer);
  if (several)
    emit_collective(body, InstructionKind::all_reduce,
                    by_experts ? GroupKind::world : GroupKind::norm, norm, norm, When::always, -1);
  const Operand loss = scalar(program_.loss_buffer);
  if (degrees_.pipeline > 1)
    emit_collective(body, InstructionKind::all_reduce, GroupKind::pipeline, loss, loss,
                    When::always, -1);
  if (degrees_.rdp() > 1)
    emit_collective(body, InstructionKind::all_reduce, GroupKind::rdp, loss, loss, When::always,
                    -1);
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

// Of as many arrays as the optimizer wants, each as large as the largest parameter's own part.
std::int64_t StageLowering::scratch_elements(const Bucket& bucket) const {
  std::int64_t largest = 0;
  for (int index : bucket.parameters)
    largest = std::max(largest, program_.parameters[at(index)].parameter.shape.elements());
  return std::min(largest, bucket.shard_elements) * optimizer_scratch_arrays(plan_.training);
}

Operand StageLowering::optimizer_scratch(std::int64_t elements) {
  const TensorType type{Shape{elements}, Dtype::f32};
  const int id =
      add_buffer("optimizer_scratch", MemoryClass::workspace, Region::task, type.bytes());
  return {id, 0, type, GroupKind::none};
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
    if (plan_.training.scales_loss()) step.inputs.push_back(scale_state(program_));
    if (program_.parameter_norms_buffer >= 0) step.inputs.push_back(parameter_norms(program_));
    step.outputs = {bucket.own_weights, bucket.master};
    for (const Operand& state : states_of(bucket)) step.outputs.push_back(state);
    const std::int64_t scratch = scratch_elements(bucket);
    if (scratch > 0) step.outputs.push_back(optimizer_scratch(scratch));
    body.emit(std::move(step));
    if (bucket.sharded && buckets_[b].zero <= 2)
      emit_collective(body, InstructionKind::all_gather, bucket.shard(), bucket.own_weights,
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
  if (plan_.training.scales_loss()) update_loss_scale(body);
  if (plan_.training.optimizer == OptimizerKind::lamb) measure_parameters(body);
  step_and_share(body);
}

}  // namespace meshwright
