#include "exec/optimizer/loss_scale.h"

#include <algorithm>

namespace meshwright {

namespace {
constexpr double largest = 0x1p126;  // beyond it fp32 has no inverse
}  // namespace

LossScaleState first_state(const Training& training) {
  if (!training.scales_loss()) return {};
  const LossScale rule = training.settled_loss_scale();
  return {rule.initial, 0, rule.hysteresis, 0};
}

LossScaleState after_step(const LossScale& rule, LossScaleState state, bool overflow) {
  if (overflow) ++state.skipped;
  if (!rule.dynamic) return state;
  if (overflow) {
    state.good_steps = 0;
    if (state.hysteresis_left > 1)
      --state.hysteresis_left;
    else
      state.scale = std::max(state.scale / rule.factor, rule.minimum);
  } else if (++state.good_steps == rule.window) {
    state.good_steps = 0;
    state.hysteresis_left = rule.hysteresis;
    state.scale = std::min(state.scale * rule.factor, largest);
  }
  return state;
}

}  // namespace meshwright
