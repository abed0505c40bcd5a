// Changes how a Program runs in an evaluation, which gets the loss of a batch without training on
// it.
#pragma once

#include <map>
#include <set>

#include "models/program/program.h"

namespace meshwright::exec {

class EvaluationRules {
 public:
  explicit EvaluationRules(const Program& program);  // which must outlive it

  // Returns the instruction's attributes without dropout.
  const Attributes& attributes_of(const Instruction& instruction) const;
  // Returns whether an evaluation leaves out this compute instruction, because it is of the
  // backward pass and does not contribute to the loss. Messages and collectives of the backward
  // pass still run, with unspecified data: weights are gathered in it for the forward pass of the
  // next micro-batch, and later instructions wait for the end of its messages.
  bool leaves_out(const Instruction& instruction, const Task& task) const;

 private:
  const Program& program_;
  std::map<const Instruction*, Attributes> without_dropout_;  // for instructions that have dropout
  std::set<const Instruction*> makes_loss_;                   // in backward bodies
};

}  // namespace meshwright::exec
