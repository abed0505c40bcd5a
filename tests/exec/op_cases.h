// Operations with random operands, and how the gradient of each one is computed. The tests of all
// backends' kernels share them.
#pragma once

#include <string>
#include <vector>

#include "tests/exec/op_runner.h"

namespace meshwright::tests {

struct Case {
  std::string name;
  Op op;
  Attributes attributes;
  std::vector<InputSpec> inputs;
  std::vector<Shape> outputs;  // the first one is differentiated
};

// Return cases of every forward operation that is a kernel and has a gradient, with several choices
// of attributes. Small cases suit finite differences. Large ones have sizes beyond the kernels'
// pieces and tiles. Those for devices have sizes beyond the pieces of its kernels, and multiples of
// what it moves at once.
std::vector<Case> small_cases();
std::vector<Case> large_cases();
std::vector<Case> device_cases();

// Returns the gradients with respect to the inputs of a case, in order (none for integers), of the
// sum over elements of dy * (first output), or for losses of scale * (sum of the losses).
using GradientRule = std::vector<OpTensor> (*)(Runner& runner, const Case& c,
                                               const std::vector<OpTensor>& inputs,
                                               const std::vector<OpTensor>& outputs,
                                               const OpTensor& dy);
struct OpRule {
  Op op;
  GradientRule gradient;
  bool is_loss = false;
};
const OpRule& rule_of(Op op);

// The operands and results of a case.
struct Played {
  std::vector<OpTensor> inputs, outputs, gradients;
  OpTensor dy;
};
std::vector<OpTensor> forward(Runner& runner, const Case& c, const std::vector<OpTensor>& inputs);
Played play(Runner& runner, const Case& c);

}  // namespace meshwright::tests
