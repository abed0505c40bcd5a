// The factor by which fp16 multiplies the loss, so that small gradients do not vanish: static, or
// moved by overflows (Micikevicius et al. 2018). A step whose scaled gradients overflow is skipped.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "models/plan/plan.h"

namespace meshwright {

// All that a run must keep of it. Without fp16 it stays as it begins.
struct LossScaleState {
  double scale = 1;                  // of the next step's loss
  std::int64_t good_steps = 0;       // since the scale moved or a step was skipped
  std::int64_t hysteresis_left = 1;  // overflows that are still to pass before the scale falls
  std::int64_t skipped = 0;          // steps without an update: the optimizer has made the others
  bool operator==(const LossScaleState&) const = default;
};

LossScaleState first_state(const Training& training);

// What a checkpoint has of it beside its counts of steps and updates. Numbers that are not there
// leave `otherwise`; impossible ones are an InputError.
std::map<std::string, double> to_numbers(const LossScaleState& state);
LossScaleState from_numbers(const std::map<std::string, double>& numbers, LossScaleState otherwise);

// After an overflow the scale falls by `factor` to `minimum` at the least, but not before
// `hysteresis` overflows; after `window` good steps in a row it grows by `factor` and the
// hysteresis is whole again. A static one stays.
LossScaleState after_step(const LossScale& rule, LossScaleState state, bool overflow);

}  // namespace meshwright
