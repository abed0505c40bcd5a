// The rule by which fp16's loss scale changes after a step. All backends share it, so it is plain
// enough for nvcc to compile it for the device too.
#pragma once

#include <cstdint>

#include "models/program/step_settings.h"

#ifdef __CUDACC__
#define MESHWRIGHT_ON_DEVICES_TOO __host__ __device__
#else
#define MESHWRIGHT_ON_DEVICES_TOO
#endif

namespace meshwright::exec {

// The state of the loss scale, which a run keeps in its checkpoints. Without fp16 it does not
// change.
struct LossScaleState {
  double scale = 1;                  // factor of the next step's loss
  std::int64_t good_steps = 0;       // steps since the scale rose or a step was skipped
  std::int64_t hysteresis_left = 1;  // overflows that are still to pass before the scale falls
  std::int64_t skipped = 0;          // steps so far without an update
  bool operator==(const LossScaleState&) const = default;
};

constexpr double largest_loss_scale = 0x1p126;  // the inverse of a larger one is not normal in fp32

// Returns the state after a step. The first `hysteresis` - 1 overflows since the scale last rose
// only count. Each later one divides the scale by `factor`, to no less than `minimum`. After
// `window` good steps in a row the scale is multiplied by `factor`, to at most largest_loss_scale,
// and the hysteresis begins again. A static scale does not change.
MESHWRIGHT_ON_DEVICES_TOO inline LossScaleState after_step(const LossScale& rule,
                                                           LossScaleState state, bool overflow) {
  if (overflow) ++state.skipped;
  if (!rule.dynamic) return state;
  if (overflow) {
    state.good_steps = 0;
    const double lower = state.scale / rule.factor;
    if (state.hysteresis_left > 1)
      --state.hysteresis_left;
    else
      state.scale = lower > rule.minimum ? lower : rule.minimum;
  } else if (++state.good_steps >= rule.window) {
    state.good_steps = 0;
    state.hysteresis_left = rule.hysteresis;
    const double higher = state.scale * rule.factor;
    state.scale = higher < largest_loss_scale ? higher : largest_loss_scale;
  }
  return state;
}

#undef MESHWRIGHT_ON_DEVICES_TOO

}  // namespace meshwright::exec
