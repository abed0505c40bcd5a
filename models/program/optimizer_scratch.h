// Counts the scratch memory that an eager framework's optimizer needs in addition to its states, in
// arrays as large as one parameter.
#pragma once

#include "models/program/step_settings.h"

namespace meshwright::program {

// Returns whether an optimizer is run as an eager framework runs it, in several kernels. It is, if
// the compiler level is `none` and moments and updated weights are fp32. States in other types are
// updated by one kernel at every compiler level, as by PyTorch's fused=True, bitsandbytes and
// torchao.
inline bool is_optimizer_eager(const StepSettings& training) {
  const auto master = training.master_type();
  return training.compiler == CompilerLevel::none && training.moments == Dtype::f32 &&
         (master == Dtype::f32 || storage_of(training.precision) == Dtype::f32);
}

// Returns the number of scratch arrays of one parameter's size that are live at once. One holds the
// denominator of Adam's update. `adam` needs another one for the sum of the gradient and weight
// decay. The number is 0 for optimizers that need none, and for those that are not eager.
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
