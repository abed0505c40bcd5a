#include "exec/runtime/update.h"

#include <algorithm>
#include <limits>

#include "exec/optimizer/bucket_state.h"
#include "exec/runtime/host_view.h"
#include "models/program/optimizer_scratch.h"

namespace meshwright::exec {

StepUpdate::StepUpdate(const RankContext& rank, const BucketParts& parts)
    : rank_(rank), parts_(parts), updater_(rank.backend.make_updater(rank.training)) {
  int key = 0;
  for (const Bucket& bucket : rank.program.buckets) {
    first_key_.push_back(key);
    key += std::max(1, static_cast<int>(bucket.pieces.size()));
  }
}

void StepUpdate::begin_step(std::int64_t step, double learning_rate, double of_mean) {
  decided_ = false;
  updater_->begin_step(step, learning_rate, of_mean);
}

ScaledStep* StepUpdate::scaled_step() const {
  static_assert(sizeof(ScaledStep) == Program::loss_scale_state * sizeof(double));
  return rank_.memory.buffer<ScaledStep>(rank_.program.loss_scale_state_buffer);
}

void StepUpdate::set_loss_scale(const LossScaleState& state) {
  scale_ = state;
  if (!scales_loss()) return;
  if (const LossScale rule = rank_.training.settled_loss_scale(); !rule.dynamic)
    scale_.scale = rule.initial;
  HostView<ScaledStep>(rank_.backend, scaled_step(), 1)->state = scale_;
  *HostView<float>(rank_.backend, rank_.memory.buffer<float>(rank_.program.loss_scale_buffer), 1) =
      static_cast<float>(scale_.scale);
}

void StepUpdate::read_loss_scale() {
  if (scales_loss()) scale_ = HostView<ScaledStep>(rank_.backend, scaled_step(), 1)->state;
}

void StepUpdate::choose_segments(int bucket, int piece) {
  const std::vector<StatePiece>& pieces = rank_.program.buckets[bucket].pieces;
  const std::int64_t begin = piece < 0 ? 0 : pieces[piece].begin;
  const std::int64_t end =
      piece < 0 ? std::numeric_limits<std::int64_t>::max() : begin + pieces[piece].count;
  auto* norms = rank_.memory.buffer<double>(rank_.program.parameter_norms_buffer);
  stepped_.clear();
  for (const OptimizerSegment& segment : parts_.segments[bucket]) {
    OptimizerSegment part = segment;
    part.begin = std::max(segment.begin, begin);
    part.count = std::min(segment.begin + segment.count, end) - part.begin;
    if (part.count <= 0) continue;
    part.first += part.begin - segment.begin;
    part.begin -= begin;
    OptimizerSegment& chosen = stepped_.emplace_back(part);
    if (norms != nullptr) chosen.norms = norms + std::ptrdiff_t{2} * segment.parameter;
  }
}

std::vector<ChoiceBias> StepUpdate::choice_biases(int bucket) const {
  std::vector<ChoiceBias> biases;
  const auto* counts = rank_.memory.buffer<const double>(rank_.program.choice_counts_buffer);
  const std::int64_t own_begin = rank_.memory.own_begin(rank_.program.buckets[bucket]);
  for (const OptimizerSegment& part : parts_.segments[bucket]) {
    const StageParameter& member = rank_.program.parameters[part.parameter];
    if (member.first_count < 0) continue;
    biases.push_back({part.begin, part.count, own_begin + part.begin - member.offset,
                      member.parameter.shape.elements(), counts + member.first_count});
  }
  return biases;
}

void StepUpdate::run(const Instruction& instruction) {
  const StepSums sums{rank_.memory.buffer<const double>(rank_.program.loss_buffer),
                      rank_.memory.buffer<const double>(rank_.program.norm_buffer), scaled_step()};
  if (instruction.op == Op::update_loss_scale)
    return updater_->update_loss_scale(sums,
                                       rank_.memory.buffer<float>(rank_.program.loss_scale_buffer));
  if (!decided_) updater_->decide(sums);
  decided_ = true;
  const Bucket& bucket = rank_.program.buckets[instruction.bucket];
  const int piece = instruction.piece;
  choose_segments(instruction.bucket, piece);
  if (piece >= 0 && stepped_.empty()) return;
  const auto address = [&](const Operand& operand) -> void* {
    return operand.buffer < 0 ? nullptr : rank_.memory.address(operand, 0);
  };
  OptimizerState state =
      piece < 0 ? state_of(bucket, address) : state_of(bucket, bucket.pieces[piece], address);
  state.moments_at_random = rank_.training.moments_at_random;
  const int key = first_key_[instruction.bucket] + std::max(0, piece);
  if (instruction.op == Op::update_choice_biases)
    return updater_->update_choice_biases(instruction.bucket, choice_biases(instruction.bucket),
                                          state);
  if (instruction.kind == InstructionKind::compute)
    return updater_->prepare(instruction.op, key, stepped_, state);
  if (optimizer_scratch_arrays(rank_.training) > 0 || state.update != nullptr) {
    const Operand& scratch = instruction.outputs.back();
    state.scratch = rank_.memory.address<float>(scratch, 0);
    state.scratch_elements = scratch.type.shape.elements();
  }
  updater_->step(key, stepped_, state);
}

}  // namespace meshwright::exec
