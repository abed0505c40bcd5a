// Tells which part of the runtime an instruction concerns.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "models/program/program.h"

namespace meshwright::exec {

inline bool is_compute(const Instruction& instruction, std::initializer_list<Op> ops) {
  return instruction.kind == InstructionKind::compute &&
         std::find(ops.begin(), ops.end(), instruction.op) != ops.end();
}

// Returns whether a compute instruction belongs to the optimizer, as an optimizer_step does.
inline bool is_of_updater(const Instruction& instruction) {
  return is_compute(instruction,
                    {Op::update_loss_scale, Op::lamb_norms, Op::muon_momentum, Op::adafactor_sums,
                     Op::adafactor_norms, Op::update_choice_biases});
}

inline bool is_message(const Instruction& instruction) {
  return instruction.kind == InstructionKind::send || instruction.kind == InstructionKind::recv;
}

inline bool is_of_backward(const Body& body) {
  return body.kind == Body::Kind::backward || body.kind == Body::Kind::weights;
}

}  // namespace meshwright::exec
