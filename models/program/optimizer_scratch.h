// Scratch memory that an eager framework's optimizer needs in addition to its states, counted in
// arrays as large as one parameter.
#pragma once

#include "models/program/step_settings.h"

namespace meshwright::program {

// Returns the number of arrays of one parameter's size that are live at once. One holds the
// denominator of Adam's update; another, for weight decay in the gradient (`adam`), the sum of
// both. The number is 0 for optimizers that are one kernel: LAMB, which PyTorch does not have, SGD,
// Adafactor, and all with moments in 8 or 64 bits; also if the compiler level is not `none`.
inline int optimizer_scratch_arrays(const StepSettings& training) {
  if (training.compiler != CompilerLevel::none || is_in_blocks(training.moments) ||
      training.moments == Dtype::f64)
    return 0;
  switch (training.optimizer) {
    case OptimizerKind::adamw:
    case OptimizerKind::muon:  // for parameters that are not matrices
    case OptimizerKind::lion:  // the array that becomes the update
      return 1;
    case OptimizerKind::adam:
      return 2;
    case OptimizerKind::lamb:
    case OptimizerKind::sgd:
    case OptimizerKind::adafactor:
      return 0;
  }
  return 0;
}

}  // namespace meshwright::program
