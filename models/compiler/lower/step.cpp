#include "models/compiler/lower/step.h"

#include <algorithm>

#include "models/compiler/lower/collective.h"
#include "models/compiler/lower/draft.h"
#include "models/compiler/lower/memory.h"
#include "models/compiler/lower/offload_states.h"
#include "models/compiler/lower/reductions.h"
#include "models/compiler/lower/rounded_weights.h"
#include "models/program/optimizer_scratch.h"

namespace meshwright::compiler {

namespace {

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

Operand all_of(const Program& program, int id, Dtype dtype) {
  const Buffer& buffer = program.memory.buffers[id];
  return {id, 0, {Shape{buffer.bytes / bytes_of(dtype)}, dtype}, GroupKind::none};
}
Operand factors(const Program& program) {
  return all_of(program, program.factors_buffer, Dtype::f32);
}
Operand factor_sums(const Program& program) {
  return all_of(program, program.factor_sums_buffer, Dtype::f64);
}

Operand choice_counts(const Program& program) {
  return all_of(program, program.choice_counts_buffer, Dtype::f64);
}

// Adds the squares of the gradients in this rank's local part of a bucket to the step's squared
// norm.
void sum_squares(const StageDraft& draft, BodyBuilder& body, int b) {
  const BucketPlan& planned = draft.buckets[b];
  if (planned.bucket.frozen) return;
  Instruction squares;
  squares.op = Op::sum_of_squares;
  squares.phase = Phase::backward;
  squares.bucket = b;
  squares.inputs = {planned.bucket.own_gradients};
  squares.outputs = {scalar(draft.program.norm_buffer)};
  if (planned.reduced_by >= 0)
    squares.waits.push_back({Wait::Relation::latest, planned.reduced_in, planned.reduced_by});
  if (planned.reduced_each) wait_for_unit_reductions(draft, squares);
  body.emit(std::move(squares));
}

// Sums the squared norm over the ranks that together hold one whole gradient, and the losses over
// stages and replicas. With expert parallelism, ranks hold different shards of different
// parameters. The norm is then summed over all ranks, and only the first rank with each shard
// counts it.
void sum_norm_and_loss(const StageDraft& draft, BodyBuilder& body) {
  const auto sum_over = [&](GroupKind group, int buffer) {
    emit_collective(draft.plan, body,
                    all_reduce_in(group, all_of(draft.program, buffer, Dtype::f64)));
  };
  const Degrees& degrees = draft.degrees;
  const bool by_experts = degrees.has_expert_groups();
  if (by_experts || degrees.pipeline * degrees.tensor * degrees.shard > 1)
    sum_over(by_experts ? GroupKind::world : GroupKind::norm, draft.program.norm_buffer);
  for (const int losses : {draft.program.loss_buffer, draft.program.mtp_loss_buffer}) {
    if (losses < 0) continue;
    if (degrees.pipeline > 1) sum_over(GroupKind::pipeline, losses);
    if (degrees.rdp() > 1) sum_over(GroupKind::rdp, losses);
  }
}

// Sums the counts of expert choices over all tokens of the global batch. The ranks of a tensor
// group route the same tokens, so their counts are not added, unless each of them routes its own
// tokens to whole experts. Counts are whole numbers, so the sum does not depend on the order.
void sum_choice_counts(const StageDraft& draft, BodyBuilder& body) {
  const Program& program = draft.program;
  if (program.choice_counts_buffer < 0) return;
  const auto sum_over = [&](GroupKind group) {
    emit_collective(draft.plan, body, all_reduce_in(group, choice_counts(program)));
  };
  if (draft.degrees.experts_over_tensor) sum_over(GroupKind::tensor);
  if (draft.degrees.rdp() > 1) sum_over(GroupKind::rdp);
  if (draft.degrees.pipeline > 1 && program.counted_routers > 0) sum_over(GroupKind::pipeline);
}

// Updates the factor of the next step's loss, and whether this step is skipped. The instruction
// optimizer_step reads this state.
void update_loss_scale(const Program& program, BodyBuilder& body) {
  Instruction update;
  update.op = Op::update_loss_scale;
  update.phase = Phase::backward;
  update.inputs = {scalar(program.norm_buffer)};
  update.outputs = {scale_state(program),
                    {program.loss_scale_buffer, 0, {Shape{1}, Dtype::f32}, GroupKind::none}};
  body.emit(std::move(update));
}

// Takes the maximum of each largest element over all ranks of the stage, because all of them must
// round identically, and appends it to its history.
void update_largest(const StageDraft& draft, BodyBuilder& body) {
  const Program& program = draft.program;
  if (program.rounded.empty()) return;
  const auto count = static_cast<std::int64_t>(program.rounded.size());
  const auto values = [&](int buffer, std::int64_t each) {
    return Operand{buffer, 0, {Shape{count, each}, Dtype::f32}, GroupKind::none};
  };
  const Operand largest = values(program.largest_buffer, 2);
  for (const auto& [group, ranks] : {std::pair{GroupKind::tensor, draft.degrees.tensor},
                                     std::pair{GroupKind::rdp, draft.degrees.rdp()}}) {
    if (ranks == 1) continue;
    CollectiveCall of_all = all_reduce_in(group, largest);
    of_all.maximum = true;
    emit_collective(draft.plan, body, of_all);
  }
  Instruction update;
  update.op = Op::update_largest;
  update.phase = Phase::backward;
  update.inputs = {scalar(program.norm_buffer), scalar(program.loss_buffer)};
  update.outputs = {largest, values(program.history_buffer, Program::history_steps)};
  body.emit(std::move(update));
}

// Holds the memory that is updated at once: that of a bucket, or of a piece of one whose states are
// brought to the device for it.
struct Stepped {
  int bucket = 0, piece = -1;
  Operand weights, gradients, master;
  std::vector<Operand> moments;
  Operand average;
};

// Returns the operand of a piece. A shard whose offset depends on the rank stays whole.
Operand piece_of(const Operand& operand, const StatePiece& piece) {
  if (operand.part_of != GroupKind::none) return operand;
  Operand part = operand;
  part.offset += piece.begin * bytes_of(operand.type.dtype);
  part.type.shape = Shape{piece.count};
  return part;
}

std::vector<Stepped> stepped_of(const StageDraft& draft, int b) {
  const Bucket& bucket = draft.buckets[b].bucket;
  const auto moments_of = [](const auto& states) {
    std::vector<Operand> moments;
    for (const Operand* each : {&states.first_moment, &states.second_moment})
      if (each->buffer >= 0) moments.push_back(*each);
    return moments;
  };
  if (bucket.pieces.empty())
    return {{b, -1, bucket.own_weights, bucket.own_gradients, bucket.master, moments_of(bucket),
             bucket.average}};
  std::vector<Stepped> all;
  for (const StatePiece& piece : bucket.pieces) {
    const Operand weights = piece_of(bucket.own_weights, piece);
    all.push_back({b, static_cast<int>(all.size()), weights, piece_of(bucket.own_gradients, piece),
                   bucket.has_master() ? piece.master : weights, moments_of(piece), piece.average});
  }
  return all;
}

// Returns whether the optimizer measures all parameters before any of them is updated (lamb and
// adafactor). The update then only reads the moments.
bool measures(const Plan& plan) { return measures_parameters(plan.training.optimizer); }

void add_over_parts(const StageDraft& draft, BodyBuilder& body, const Operand& sums) {
  for (const auto& [group, ranks] : {std::pair{GroupKind::tensor, draft.degrees.tensor},
                                     std::pair{GroupKind::shard, draft.degrees.shard}})
    if (ranks > 1) emit_collective(draft.plan, body, all_reduce_in(group, sums));
}

// Returns the instruction that measures a bucket or piece. It reads gradients, the norm and the
// loss scale, which say whether the step is skipped, and with `masters` the master weights.
Instruction measuring(const StageDraft& draft, Op op, const Stepped& each, bool masters = true) {
  Instruction measure;
  measure.op = op;
  measure.phase = Phase::backward;
  measure.bucket = each.bucket;
  measure.piece = each.piece;
  measure.inputs = {each.gradients};
  if (masters) measure.inputs.push_back(each.master);
  measure.inputs.push_back(scalar(draft.program.norm_buffer));
  if (masters && each.master.type.dtype == Dtype::i16) measure.inputs.push_back(each.weights);
  if (draft.plan.training.scales_loss()) measure.inputs.push_back(scale_state(draft.program));
  return measure;
}

// Sums the squares of the gradients' rows and columns, which adafactor needs first. Does nothing
// for other optimizers.
void sum_squares_of_matrices(const StageDraft& draft, BodyBuilder& body) {
  if (draft.program.factors_buffer < 0) return;
  const Operand sums = factor_sums(draft.program);
  for (std::size_t b = 0; b < draft.buckets.size(); ++b) {
    if (!draft.buckets[b].bucket.factored) continue;
    Instruction sum =
        measuring(draft, Op::adafactor_sums, stepped_of(draft, static_cast<int>(b)).front(), false);
    sum.outputs = {sums};
    body.emit(std::move(sum));
  }
  add_over_parts(draft, body, sums);
}

// Updates the moments or factors, and computes the norms that lamb and adafactor need, from the
// part of each parameter that this rank holds. The norms are then summed over the ranks of this
// stage that hold the other parts (tensor group, shards).
void measure_parameters(const StageDraft& draft, BodyBuilder& body, StateTurns& turns) {
  const bool is_lamb = draft.plan.training.optimizer == OptimizerKind::lamb;
  const Operand norms = parameter_norms(draft.program);
  sum_squares_of_matrices(draft, body);
  for (std::size_t b = 0; b < draft.buckets.size(); ++b) {
    const Bucket& bucket = draft.buckets[b].bucket;
    if (bucket.frozen) continue;
    for (const Stepped& each : stepped_of(draft, static_cast<int>(b))) {
      Instruction measure = measuring(draft, is_lamb ? Op::lamb_norms : Op::adafactor_norms, each);
      measure.outputs = each.moments;  // the instruction also reads them
      if (bucket.factored) measure.outputs = {factors(draft.program), factor_sums(draft.program)};
      for (const Operand& state : measure.outputs) measure.inputs.push_back(state);
      measure.outputs.push_back(norms);
      body.emit(std::move(measure));
      turns.end_turn(States::moments);
    }
  }
  add_over_parts(draft, body, norms);
}

// Returns the number of elements of all scratch arrays that the optimizer needs for a bucket. Each
// is as large as this rank's part of the largest parameter.
std::int64_t scratch_elements(const StageDraft& draft, const Bucket& bucket) {
  std::int64_t largest = 0;
  for (int index : bucket.parameters)
    largest = std::max(largest, draft.program.parameters[index].parameter.shape.elements());
  return std::min(largest, bucket.shard_elements) * optimizer_scratch_arrays(draft.plan.training);
}

// Adds a workspace array of this many fp32 elements to the task region.
Operand in_task(StageDraft& draft, std::string_view name, std::int64_t elements) {
  const TensorType type{Shape{elements}, Dtype::f32};
  const int id = add_buffer(draft, name, MemoryClass::workspace, Region::task, type.bytes());
  return {id, 0, type, GroupKind::none};
}

// Updates the momentum of a bucket of matrices, and computes from it what muon orthogonalizes. If
// tensor ranks share the matrices, an all-gather then gives each rank the parts of all ranks. Does
// nothing for other buckets.
void make_updates(StageDraft& draft, BodyBuilder& body, int b) {
  BucketPlan& planned = draft.buckets[b];
  Bucket& bucket = planned.bucket;
  if (!bucket.matrices) return;
  const std::int64_t elements = bucket.elements;
  bucket.update = bucket.updates = in_task(draft, "update", elements);
  Instruction momentum;
  momentum.op = Op::muon_momentum;
  momentum.phase = Phase::backward;
  momentum.bucket = b;
  momentum.inputs = {bucket.own_gradients, bucket.first_moment, scalar(draft.program.norm_buffer)};
  if (draft.plan.training.scales_loss()) momentum.inputs.push_back(scale_state(draft.program));
  momentum.outputs = {bucket.first_moment, bucket.update};
  body.emit(std::move(momentum));
  if (!planned.is_cut) return;
  bucket.updates = in_task(draft, "updates", elements * draft.degrees.tensor);
  emit_collective(draft.plan, body,
                  {.kind = InstructionKind::all_gather,
                   .group = GroupKind::tensor,
                   .input = bucket.update,
                   .output = bucket.updates,
                   .bucket = b});
}

// Returns the elements of scratch memory that muon needs for the largest matrix of the bucket: two
// matrices of its size, and two square ones of its shorter side.
std::int64_t muon_scratch_elements(const StageDraft& draft, const BucketPlan& planned) {
  std::int64_t most = 0;
  for (int index : planned.bucket.parameters) {
    const Parameter& parameter = draft.program.parameters[index].parameter;
    const Shape& shape = planned.is_cut ? parameter.padded_shape : parameter.shape;
    const std::int64_t rows = shape[-2], columns = shape[-1], side = std::min(rows, columns);
    most = std::max(most, 2 * rows * columns + 2 * side * side);
  }
  return most;
}

void emit_step(StageDraft& draft, BodyBuilder& body, const Stepped& each) {
  const Program& program = draft.program;
  const Bucket& bucket = draft.buckets[each.bucket].bucket;
  Instruction step;
  step.kind = InstructionKind::optimizer_step;
  step.bucket = each.bucket;
  step.piece = each.piece;
  step.inputs = {each.gradients, scalar(program.norm_buffer)};
  if (draft.plan.training.scales_loss()) step.inputs.push_back(scale_state(program));
  if (program.parameter_norms_buffer >= 0) step.inputs.push_back(parameter_norms(program));
  if (bucket.factored) step.inputs.push_back(factor_sums(program));
  step.outputs = {each.weights, each.master};
  for (const Operand& state : each.moments) step.outputs.push_back(state);
  if (each.average.buffer >= 0) step.outputs.push_back(each.average);
  if (bucket.matrices) {
    step.inputs.push_back(bucket.updates);
    step.outputs.push_back(bucket.update);
  }
  const std::int64_t scratch = bucket.matrices
                                   ? muon_scratch_elements(draft, draft.buckets[each.bucket])
                                   : scratch_elements(draft, bucket);
  if (scratch > 0) step.outputs.push_back(in_task(draft, "optimizer_scratch", scratch));
  body.emit(std::move(step));
}

// Updates the biases of routers by the counts of choices, after the optimizer, because these biases
// have no gradient.
void update_choice_biases(const StageDraft& draft, BodyBuilder& body, int b) {
  const Program& program = draft.program;
  const Bucket& bucket = draft.buckets[b].bucket;
  const bool has_any = std::ranges::any_of(
      bucket.parameters, [&](int index) { return program.parameters[index].first_count >= 0; });
  if (!has_any) return;
  Instruction update;
  update.op = Op::update_choice_biases;
  update.phase = Phase::backward;
  update.bucket = b;
  update.inputs = {choice_counts(program), scalar(program.norm_buffer)};
  if (draft.plan.training.scales_loss()) update.inputs.push_back(scale_state(program));
  update.outputs = {bucket.own_weights, bucket.master};
  body.emit(std::move(update));
}

void step_bucket(StageDraft& draft, BodyBuilder& body, int b, StateTurns& turns) {
  make_updates(draft, body, b);
  for (const Stepped& each : stepped_of(draft, b)) {
    emit_step(draft, body, each);
    turns.end_turn(measures(draft.plan) ? States::weights : States::all);
  }
}

// Sends the updated weights of a bucket from its owner to the other ranks that hold them.
void broadcast_bucket(const StageDraft& draft, BodyBuilder& body, int b) {
  const Bucket& bucket = draft.buckets[b].bucket;
  const Owner& owner = bucket.owner;
  // Whether all tensor ranks hold the same parameters. Then one of them sends to all.
  const bool alike = owner.tensor >= 0;
  const GroupKind group = alike ? GroupKind::dp : GroupKind::rdp;
  const Mesh mesh(draft.degrees, draft.plan.parallelism.placement);
  const int rank = mesh.rank({draft.program.stage, std::max(0, owner.tensor), owner.rdp});
  emit_collective(draft.plan, body,
                  {.kind = InstructionKind::broadcast,
                   .group = group,
                   .input = bucket.weights,
                   .output = bucket.weights,
                   .bucket = b,
                   .root = mesh.index_in(group, rank)});
}

// Makes each rank update its part of the parameters, and sends the new weights to all ranks that
// hold them. Flat shards are gathered while the next bucket is updated, except under ZeRO 3. If
// parameters have owners, all owners update theirs before any is sent.
void step_and_share(StageDraft& draft, BodyBuilder& body, StateTurns& turns) {
  const int buckets = static_cast<int>(draft.buckets.size());
  for (int b = 0; b < buckets; ++b) {
    const BucketPlan& planned = draft.buckets[b];
    const Bucket& bucket = planned.bucket;
    if (bucket.frozen) continue;
    step_bucket(draft, body, b, turns);
    update_choice_biases(draft, body, b);
    if (bucket.sharded && planned.zero <= 2)
      emit_collective(draft.plan, body,
                      {.kind = InstructionKind::all_gather,
                       .group = bucket.shard(),
                       .input = bucket.own_weights,
                       .output = bucket.weights,
                       .bucket = b});
  }
  for (int b = 0; b < buckets; ++b)
    if (!draft.buckets[b].bucket.owner.everybody()) broadcast_bucket(draft, body, b);
}

}  // namespace

void write_begin(StageDraft& draft) {
  const Program& program = draft.program;
  BodyBuilder body(draft.program, 0, Body::Kind::step_begin);
  Instruction zero;
  zero.op = Op::zero;
  zero.outputs = {scalar(program.loss_buffer), scalar(program.norm_buffer)};
  if (program.mtp_loss_buffer >= 0)
    zero.outputs.push_back(all_of(program, program.mtp_loss_buffer, Dtype::f64));
  for (const BucketPlan& planned : draft.buckets)
    if (!planned.bucket.frozen) zero.outputs.push_back(planned.bucket.gradients);
  if (program.parameter_norms_buffer >= 0) zero.outputs.push_back(parameter_norms(program));
  if (program.factor_sums_buffer >= 0) zero.outputs.push_back(factor_sums(program));
  if (program.choice_counts_buffer >= 0) zero.outputs.push_back(choice_counts(program));
  body.emit(std::move(zero));
  round_own_weights(draft, body);
  for (Instruction& each : draft.of_step) body.emit(std::move(each));
}

void write_end(StageDraft& draft) {
  const Training& training = draft.plan.training;
  const int buckets = static_cast<int>(draft.buckets.size());
  BodyBuilder body(draft.program, draft.end_body(), Body::Kind::step_end);
  StateTurns turns(draft, body, measures(draft.plan) ? 2 : 1);
  for (int b = 0; b < buckets; ++b) finish_reduction(draft, body, b);
  for (int b = 0; b < buckets; ++b) sum_squares(draft, body, b);
  sum_norm_and_loss(draft, body);
  sum_choice_counts(draft, body);
  if (training.scales_loss()) update_loss_scale(draft.program, body);
  update_largest(draft, body);
  if (measures(draft.plan)) measure_parameters(draft, body, turns);
  step_and_share(draft, body, turns);
  turns.finish();
}

}  // namespace meshwright::compiler
