#include "exec/runtime/evaluation.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "exec/runtime/instruction_kinds.h"
#include "models/program/graph/fusion.h"

namespace meshwright::exec {

namespace {

// A dropout probability that drops no element, because its threshold among 32-bit random numbers is
// rounded down to 0, and that divides kept elements by 1. It is not 0, because then other kernels
// would be chosen, whose memory nobody has planned.
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

EvaluationRules::EvaluationRules(const Program& program) : program_(program) {
  for (const Body& body : program.bodies) {
    for (const Instruction& instruction : body.instructions) {
      Attributes attributes = instruction.attributes;
      if (leave_out_dropout(attributes)) without_dropout_[&instruction] = std::move(attributes);
    }
    if (program.loss_buffer < 0 || !is_of_backward(body)) continue;
    for (const Instruction* maker : makers_of_loss(body, program.loss_buffer))
      makes_loss_.insert(maker);
  }
}

const Attributes& EvaluationRules::attributes_of(const Instruction& instruction) const {
  const auto found = without_dropout_.find(&instruction);
  return found == without_dropout_.end() ? instruction.attributes : found->second;
}

bool EvaluationRules::leaves_out(const Instruction& instruction, const Task& task) const {
  return is_of_backward(program_.bodies[task.body]) && !makes_loss_.contains(&instruction);
}

}  // namespace meshwright::exec
