// How an evaluation runs a Program to get the loss of a batch without training on it.
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
  // backward pass and does not make the loss. Messages and collectives of the backward pass still
  // run, with unspecified data: weights are gathered next to them for the forward pass of the next
  // micro-batch, and slots are free when they end.
  bool leaves_out(const Instruction& instruction, const Task& task) const;

 private:
  const Program& program_;
  std::map<const Instruction*, Attributes> without_dropout_;  // of those that have any
  std::set<const Instruction*> makes_loss_;                   // in backward bodies
};

}  // namespace meshwright::exec
