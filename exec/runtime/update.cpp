// The step's end on one rank: the loss scale, and the optimizer on this rank's own parts.
#include <cmath>
#include <cstring>
#include <string>

#include "exec/backends/cpu/half.h"
#include "exec/optimizer/framework_optimizer.h"
#include "exec/optimizer/learning_rate.h"
#include "exec/runtime/runtime.h"
#include "models/core/error.h"
#include "models/plan/optimizer_scratch.h"

namespace meshwright {

namespace {

// What lies in Program::loss_scale_state_buffer.
struct DeviceLossScale {
  LossScaleState state;
  double inverse = 1;  // of the scale of the step under way
  double skips = 0;    // not 0: that step makes no update
};
static_assert(sizeof(DeviceLossScale) == Program::loss_scale_state * sizeof(double));

DeviceLossScale* device_scale(const Program& program, const Arena& memory) {
  return static_cast<DeviceLossScale*>(memory.buffer(program.loss_scale_state_buffer));
}

}  // namespace

LossScaleState Runtime::loss_scale() const {
  const DeviceLossScale* device = device_scale(program_, memory_);
  return device == nullptr ? LossScaleState{} : device->state;
}

void Runtime::set_loss_scale(const LossScaleState& state) {
  DeviceLossScale* device = device_scale(program_, memory_);
  if (device == nullptr) return;
  device->state = state;
  *static_cast<float*>(memory_.buffer(program_.loss_scale_buffer)) =
      static_cast<float>(state.scale);
}

// The norm is the same on all ranks, so all of them skip the step, or none.
void Runtime::update_loss_scale() {
  backend_.wait();
  DeviceLossScale* device = device_scale(program_, memory_);
  if (!std::isfinite(memory_.scalar(program_.loss_buffer))) fail_non_finite("loss");
  const bool overflow = !std::isfinite(memory_.scalar(program_.norm_buffer));
  device->inverse = 1 / device->state.scale;
  device->skips = overflow ? 1 : 0;
  set_loss_scale(after_step(plan_.training.settled_loss_scale(), device->state, overflow));
}

// Whether there is an update; the factor of the gradients is then known.
bool Runtime::ready_to_update() {
  backend_.wait();
  const DeviceLossScale* device = device_scale(program_, memory_);
  const double inverse = device == nullptr ? 1 : device->inverse;
  const double norm = std::sqrt(memory_.scalar(program_.norm_buffer)) * inverse;
  const bool skips = device != nullptr && device->skips != 0;
  if (!std::isfinite(memory_.scalar(program_.loss_buffer))) fail_non_finite("loss");
  if (!std::isfinite(norm) && !skips) fail_non_finite("gradient norm");
  scalars_.gradient_factor = clip_factor(norm, plan_.training.gradient_clip) * inverse;
  return !skips;
}

OptimizerState Runtime::state_of(const Bucket& bucket) const {
  const auto floats = [&](const Operand& operand) {
    return operand.buffer < 0 ? nullptr : static_cast<float*>(memory_.address(operand, 0));
  };
  OptimizerState state{floats(bucket.master), memory_.address(bucket.own_gradients, 0),
                       floats(bucket.first_moment), floats(bucket.second_moment)};
  state.gradient_type = bucket.own_gradients.type.dtype;
  state.working_type = bucket.own_weights.type.dtype;
  if (state.working_type != Dtype::f32) state.working = memory_.address(bucket.own_weights, 0);
  return state;
}

void Runtime::choose_segments(int bucket) {
  auto* norms = static_cast<double*>(memory_.buffer(program_.parameter_norms_buffer));
  stepped_.clear();
  for (const Segment& segment : segments_[static_cast<std::size_t>(bucket)]) {
    OptimizerSegment& chosen = stepped_.emplace_back(segment.elements);
    if (norms != nullptr) chosen.norms = norms + std::ptrdiff_t{2} * segment.parameter;
  }
}

void Runtime::measure_bucket(const Instruction& instruction) {
  if (!has_update_) return;
  choose_segments(instruction.bucket);
  lamb_norms(plan_.training, scalars_, stepped_,
             state_of(program_.buckets[static_cast<std::size_t>(instruction.bucket)]), pool_);
}

void Runtime::step_bucket(const Instruction& instruction) {
  if (!has_update_) return;
  choose_segments(instruction.bucket);
  OptimizerState state = state_of(program_.buckets[static_cast<std::size_t>(instruction.bucket)]);
  if (optimizer_scratch_arrays(plan_.training) > 0) {
    const Operand& scratch = instruction.outputs.back();
    state.scratch = static_cast<float*>(memory_.address(scratch, 0));
    state.scratch_elements = scratch.type.shape.elements();
  }
  if (plan_.training.compiler == CompilerLevel::none)
    framework_optimizer_step(plan_.training, scalars_, stepped_, state, pool_);
  else
    optimizer_step(plan_.training, scalars_, stepped_, state, pool_);
}

void Runtime::refresh_working_copies() {
  for (const Bucket& bucket : program_.buckets) {
    const Dtype dtype = bucket.own_weights.type.dtype;
    if (dtype == Dtype::f32 || !memory_.steps(bucket)) continue;
    narrow(static_cast<const float*>(memory_.address(bucket.master, 0)), dtype,
           bucket.shard_elements, memory_.address(bucket.own_weights, 0));
  }
  // As the step's end shares them.
  const Task& end = program_.tasks.back();
  for (const Instruction& instruction :
       program_.bodies[static_cast<std::size_t>(end.body)].instructions)
    if (instruction.bucket >= 0 && (instruction.kind == InstructionKind::all_gather ||
                                    instruction.kind == InstructionKind::broadcast))
      collective(instruction, end);
}

}  // namespace meshwright
