// The part of Runtime that computes the loss of a batch without training on it.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "exec/runtime/host_view.h"
#include "exec/runtime/runtime.h"
#include "models/core/error.h"
#include "models/program/graph/fusion.h"

namespace meshwright {

namespace {

// A dropout probability that drops no element, because it is less than the smallest random number,
// and that divides kept elements by 1. It is not 0, because then other kernels would be chosen,
// whose memory nobody has planned.
constexpr double drops_nothing = 1e-300;

// Sets dropout so that nothing is dropped, and returns whether there was any.
bool leave_out_dropout(Attributes& attributes) {
  bool found = attributes.dropout > 0;
  if (found) attributes.dropout = drops_nothing;
  if (attributes.fusion == nullptr) return found;
  auto fusion = std::make_shared<Fusion>(*attributes.fusion);
  bool inside = false;
  for (FusedStep& step : fusion->steps)
    if (leave_out_dropout(step.attributes)) inside = true;
  if (inside) attributes.fusion = std::move(fusion);
  return found || inside;
}

bool is_of_backward(const Body& body) {
  return body.kind == Body::Kind::backward || body.kind == Body::Kind::weights;
}

// Returns whether the operands may have a byte in common.
bool may_meet(const Operand& a, const Operand& b) {
  if (a.buffer != b.buffer) return false;
  if (a.part_of != GroupKind::none || b.part_of != GroupKind::none) return true;
  return a.offset < b.offset + b.type.bytes() && b.offset < a.offset + a.type.bytes();
}

// Returns the instructions of a body that the sum of losses depends on, the last one first. A fused
// loss is one of them, although it makes a gradient too.
std::vector<const Instruction*> makers_of_loss(const Body& body, int loss_buffer) {
  std::vector<const Instruction*> makers;
  std::vector<Operand> wanted = {{loss_buffer, 0, {Shape{1}, Dtype::f64}, GroupKind::none}};
  for (auto it = body.instructions.rbegin(); it != body.instructions.rend(); ++it) {
    const bool makes = std::ranges::any_of(it->outputs, [&](const Operand& output) {
      return std::ranges::any_of(wanted,
                                 [&](const Operand& operand) { return may_meet(output, operand); });
    });
    if (!makes) continue;
    makers.push_back(&*it);
    wanted.insert(wanted.end(), it->inputs.begin(), it->inputs.end());
  }
  return makers;
}

}  // namespace

void Runtime::prepare_evaluation() {
  if (std::exchange(can_evaluate_, true)) return;
  for (const Body& body : program_.bodies) {
    for (const Instruction& instruction : body.instructions) {
      Attributes attributes = instruction.attributes;
      if (leave_out_dropout(attributes)) without_dropout_[&instruction] = std::move(attributes);
    }
    if (program_.loss_buffer < 0 || !is_of_backward(body)) continue;
    for (const Instruction* maker : makers_of_loss(body, program_.loss_buffer))
      makes_loss_.insert(maker);
  }
}

const Attributes& Runtime::attributes_of(const Instruction& instruction) const {
  if (!evaluates_) return instruction.attributes;
  const auto found = without_dropout_.find(&instruction);
  return found == without_dropout_.end() ? instruction.attributes : found->second;
}

// Returns whether an evaluation leaves out this compute instruction, because it is of the backward
// pass and does not make the loss. Messages and collectives of the backward pass still run, with
// unspecified data: weights are gathered next to them for the forward pass of the next micro-batch,
// and slots are free when they end.
bool Runtime::is_left_out(const Instruction& instruction, const Task& task) const {
  return evaluates_ && is_of_backward(program_.bodies[static_cast<std::size_t>(task.body)]) &&
         !makes_loss_.contains(&instruction);
}

Evaluation Runtime::evaluate(std::int64_t position, Loader& loader) {
  prepare_evaluation();
  // An evaluation must not affect delayed scales, so their maxima are restored after it.
  std::vector<float> largest(2 * program_.rounded.size());
  const auto keep_largest = [&](bool puts_back) {
    if (largest.empty()) return;
    HostView<float> view(backend_, static_cast<float*>(memory_.buffer(program_.largest_buffer)),
                         std::ssize(largest));
    if (puts_back)
      std::copy(largest.begin(), largest.end(), view.data());
    else
      std::copy_n(view.data(), largest.size(), largest.begin());
  };
  keep_largest(false);
  Loader* const trained = std::exchange(loader_, &loader);
  const std::int64_t trained_position = std::exchange(position_, position);
  const bool traces = std::exchange(options_.trace, false);
  const std::string where = "the evaluation after step " + std::to_string(step_);
  evaluates_ = true;
  try {
    run_tasks();
  } catch (const RunError& error) {
    throw RunError(where + ": " + error.what());
  }
  evaluates_ = false;
  options_.trace = traces;
  position_ = trained_position;
  loader_ = trained;
  keep_largest(true);
  const Evaluation found{memory_.scalar(program_.loss_buffer), counted_targets(position, loader)};
  if (!std::isfinite(found.loss)) throw RunError(where + ": the loss is not finite");
  return found;
}

}  // namespace meshwright
