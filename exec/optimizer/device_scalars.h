// The scalars of the end of a step, in the backend's memory. A device finds all of them there, so
// that a captured step can be replayed and no step waits for the host.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/optimizer/factors.h"
#include "exec/optimizer/loss_scale_rule.h"
#include "models/program/program.h"

namespace meshwright::exec {

struct UpdateScalars {
  // The host writes these before a step.
  double learning_rate = 0;
  double gradient_clip = 0;  // 0: off
  double of_mean = 1;        // multiplies gradients, see Updater::begin_step

  // The device updates these. The host writes them when a run begins or resumes.
  std::int64_t step = 0;      // updates made so far, without skipped steps
  LossScaleState loss_scale;  // from here to `skips`: the layout of a ScaledStep
  double inverse_scale = 1;   // 1 / scale of the step in flight
  double skips = 0;           // not 0: fp16 skips the step in flight

  // The device writes these for the update in flight, and the host reads them afterwards. If
  // `updates` is 0, no weight was changed, because the step was skipped or its loss or norm is not
  // finite.
  std::int64_t updates = 0;
  double gradient_factor = 1;  // clipping, and the inverse of the loss scale
  Factors factors{};
};

static_assert(offsetof(UpdateScalars, skips) - offsetof(UpdateScalars, loss_scale) ==
              (Program::loss_scale_state - 1) * sizeof(double));

}  // namespace meshwright::exec
