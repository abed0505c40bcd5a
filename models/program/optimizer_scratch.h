// Scratch memory that an eager framework's optimizer needs in addition to its states, counted in
// arrays as large as one parameter.
#pragma once

#include "models/program/step_settings.h"

namespace meshwright::program {

// Returns whether an optimizer is run as an eager framework runs it, kernel by kernel. States in
// other types than fp32 are updated by one kernel at every compiler level, as by PyTorch's
// fused=True, bitsandbytes and torchao.
inline bool is_optimizer_eager(const StepSettings& training) {
  const auto master = training.master_type();
  return training.compiler == CompilerLevel::none && training.moments == Dtype::f32 &&
         (master == Dtype::f32 || storage_of(training.precision) == Dtype::f32);
}

// Returns the number of arrays of one parameter's size that are live at once. One holds the
// denominator of Adam's update; another, for weight decay in the gradient (`adam`), the sum of
// both. The number is 0 for optimizers that are one kernel: LAMB, which PyTorch does not have, SGD,
// Adafactor, and those that are not eager.
inline int optimizer_scratch_arrays(const StepSettings& training) {
  if (!is_optimizer_eager(training)) return 0;
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
