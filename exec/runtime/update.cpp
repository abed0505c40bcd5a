// The part of Runtime that ends a step: the loss scale, and the optimizer on this rank's parts.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "exec/optimizer/bucket_state.h"
#include "exec/optimizer/remainders.h"
#include "exec/runtime/host_view.h"
#include "exec/runtime/runtime.h"
#include "models/core/error.h"
#include "models/program/optimizer_scratch.h"

namespace meshwright {

ScaledStep* Runtime::scaled_step() const {
  static_assert(sizeof(ScaledStep) == Program::loss_scale_state * sizeof(double));
  return static_cast<ScaledStep*>(memory_.buffer(program_.loss_scale_state_buffer));
}

void Runtime::set_loss_scale(const LossScaleState& state) {
  scale_ = state;
  if (!scales_loss()) return;
  if (const LossScale rule = training_.settled_loss_scale(); !rule.dynamic)
    scale_.scale = rule.initial;
  HostView<ScaledStep>(backend_, scaled_step(), 1)->state = scale_;
  *HostView<float>(backend_, static_cast<float*>(memory_.buffer(program_.loss_scale_buffer)), 1) =
      static_cast<float>(scale_.scale);
}

// Returns the results of a step, and looks whether they are finite. The norm is the same on all
// ranks, so all of them skip a step, or none does, and they search together for a value that is not
// finite. Until then nothing has changed.
StepResult Runtime::look_at_result() {
  const double loss = memory_.scalar(program_.loss_buffer);
  const double squared_norm = memory_.scalar(program_.norm_buffer);
  if (!std::isfinite(loss)) fail_non_finite("loss");
  if (!std::isfinite(squared_norm) && !scales_loss()) fail_non_finite("gradient norm");
  if (scales_loss()) scale_ = HostView<ScaledStep>(backend_, scaled_step(), 1)->state;
  StepResult result;
  result.loss = loss / static_cast<double>(program_.targets_per_step);
  result.grad_norm = std::sqrt(squared_norm);
  result.mtp_loss = mtp_loss();
  result.expert_load = expert_load();
  return result;
}

// Returns the mean loss of multi-token prediction over its depths, or none without it. At depth d,
// the last d tokens of a sequence have no target, so each sum is divided by the share of those that
// have one.
std::optional<double> Runtime::mtp_loss() const {
  const int id = program_.mtp_loss_buffer;
  if (id < 0) return {};
  const std::int64_t depths = program_.memory.buffers[static_cast<std::size_t>(id)].bytes /
                              static_cast<std::int64_t>(sizeof(double));
  HostView<const double> sums(backend_, static_cast<const double*>(memory_.buffer(id)), depths);
  const double length = training_.sequence_length;
  double mean = 0;
  for (std::int64_t depth = 0; depth < depths; ++depth)
    mean += sums.data()[depth] / (1 - static_cast<double>(depth + 1) / length);
  return mean / static_cast<double>(depths * program_.targets_per_step);
}

std::optional<double> Runtime::expert_load() const {
  const std::int64_t routers = program_.counted_routers;
  if (routers == 0) return {};
  const int id = program_.choice_counts_buffer;
  const std::int64_t all = program_.memory.buffers[static_cast<std::size_t>(id)].bytes /
                           static_cast<std::int64_t>(sizeof(double));
  HostView<const double> counts(backend_, static_cast<const double*>(memory_.buffer(id)), all);
  const std::int64_t experts = all / routers;
  const std::int64_t parts = mesh_.degrees().expert > 1 ? mesh_.degrees().expert : experts;
  double loads = 0;
  for (std::int64_t router = 0; router < routers; ++router) {
    double fullest = 0, sum = 0;
    for (std::int64_t part = 0; part < parts; ++part) {
      const double* begin = counts.data() + router * experts + part * (experts / parts);
      const double own = std::accumulate(begin, begin + experts / parts, 0.0);
      fullest = std::max(fullest, own);
      sum += own;
    }
    loads += sum > 0 ? fullest * static_cast<double>(parts) / sum : 1;
  }
  return loads / static_cast<double>(routers);
}

void Runtime::choose_segments(int bucket, int piece) {
  const std::vector<StatePiece>& pieces = program_.buckets[static_cast<std::size_t>(bucket)].pieces;
  const std::int64_t begin = piece < 0 ? 0 : pieces[static_cast<std::size_t>(piece)].begin;
  const std::int64_t end = piece < 0 ? std::numeric_limits<std::int64_t>::max()
                                     : begin + pieces[static_cast<std::size_t>(piece)].count;
  auto* norms = static_cast<double*>(memory_.buffer(program_.parameter_norms_buffer));
  stepped_.clear();
  for (const Segment& segment : segments_[static_cast<std::size_t>(bucket)]) {
    OptimizerSegment part = segment.elements;
    part.begin = std::max(segment.elements.begin, begin);
    part.count = std::min(segment.elements.begin + segment.elements.count, end) - part.begin;
    if (part.count <= 0) continue;
    part.first += part.begin - segment.elements.begin;
    part.begin -= begin;
    OptimizerSegment& chosen = stepped_.emplace_back(part);
    if (norms != nullptr) chosen.norms = norms + std::ptrdiff_t{2} * segment.parameter;
  }
}

std::vector<ChoiceBias> Runtime::choice_biases(int bucket) const {
  std::vector<ChoiceBias> biases;
  const auto* counts = static_cast<const double*>(memory_.buffer(program_.choice_counts_buffer));
  const std::int64_t own_begin =
      memory_.own_begin(program_.buckets[static_cast<std::size_t>(bucket)]);
  for (const Segment& segment : segments_[static_cast<std::size_t>(bucket)]) {
    const StageParameter& member = program_.parameters[static_cast<std::size_t>(segment.parameter)];
    if (member.first_count < 0) continue;
    const OptimizerSegment& part = segment.elements;
    biases.push_back({part.begin, part.count, own_begin + part.begin - member.offset,
                      member.parameter.shape.elements(), counts + member.first_count});
  }
  return biases;
}

void Runtime::update(const Instruction& instruction) {
  const StepSums sums{static_cast<const double*>(memory_.buffer(program_.loss_buffer)),
                      static_cast<const double*>(memory_.buffer(program_.norm_buffer)),
                      scaled_step()};
  if (instruction.op == Op::update_loss_scale)
    return updater_->update_loss_scale(
        sums, static_cast<float*>(memory_.buffer(program_.loss_scale_buffer)));
  if (!decided_) updater_->decide(sums);
  decided_ = true;
  const Bucket& bucket = program_.buckets[static_cast<std::size_t>(instruction.bucket)];
  const int piece = instruction.piece;
  choose_segments(instruction.bucket, piece);
  if (piece >= 0 && stepped_.empty()) return;
  const auto address = [&](const Operand& operand) -> void* {
    return operand.buffer < 0 ? nullptr : memory_.address(operand, 0);
  };
  OptimizerState state =
      piece < 0 ? state_of(bucket, address)
                : state_of(bucket, bucket.pieces[static_cast<std::size_t>(piece)], address);
  state.moments_at_random = training_.moments_at_random;
  const int key = first_key_[static_cast<std::size_t>(instruction.bucket)] + std::max(0, piece);
  if (instruction.op == Op::lamb_norms) return updater_->lamb_norms(key, stepped_, state);
  if (instruction.op == Op::adafactor_sums) return updater_->adafactor_sums(key, stepped_, state);
  if (instruction.op == Op::adafactor_norms) return updater_->adafactor_norms(key, stepped_, state);
  if (instruction.op == Op::muon_momentum) return updater_->muon_momentum(key, stepped_, state);
  if (instruction.op == Op::update_choice_biases)
    return updater_->update_choice_biases(instruction.bucket, choice_biases(instruction.bucket),
                                          state);
  if (optimizer_scratch_arrays(training_) > 0 || state.update != nullptr) {
    const Operand& scratch = instruction.outputs.back();
    state.scratch = static_cast<float*>(memory_.address(scratch, 0));
    state.scratch_elements = scratch.type.shape.elements();
  }
  updater_->step(key, stepped_, state);
}

void Runtime::refresh_working_copies() {
  for (const Bucket& bucket : program_.buckets) {
    const Dtype dtype = bucket.own_weights.type.dtype;
    if (bucket.master.type.dtype != Dtype::f32) continue;  // remainders need no copy
    if (!bucket.has_master() || !memory_.steps(bucket)) continue;
    const std::int64_t elements = bucket.shard_elements;
    HostView<const float> masters(
        backend_, static_cast<const float*>(memory_.address(bucket.master, 0)), elements);
    HostView<std::byte> working(backend_,
                                static_cast<std::byte*>(memory_.address(bucket.own_weights, 0)),
                                elements * bytes_of(dtype));
    round_masters(masters.data(), dtype, elements, working.data());
  }
  // Shares the new copies as the step's end does.
  const Task& end = program_.tasks.back();
  for (const Instruction& instruction :
       program_.bodies[static_cast<std::size_t>(end.body)].instructions)
    if (instruction.bucket >= 0 && (instruction.kind == InstructionKind::all_gather ||
                                    instruction.kind == InstructionKind::broadcast))
      collective(instruction, end);
  backend_.wait();
}

}  // namespace meshwright
