// Scratch memory of an eager framework's optimizer in addition to its states, counted in arrays as
// large as one parameter.
#pragma once

#include "models/program/step_settings.h"

namespace meshwright {

// Returns the number of arrays: the denominator of Adam's update and, with decay in the gradient,
// that sum too. LAMB is not part of PyTorch, so it keeps its one kernel, as do moments in 8 bits
// and Adafactor.
inline int optimizer_scratch_arrays(const StepSettings& training) {
  if (training.compiler != CompilerLevel::none || is_in_blocks(training.moments)) return 0;
  switch (training.optimizer) {
    case OptimizerKind::adamw:
    case OptimizerKind::muon:  // what is no matrix
    case OptimizerKind::lion:  // what becomes the update
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

}  // namespace meshwright
