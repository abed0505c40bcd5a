// Rotary positions of longer texts than a model was first trained on: pairs that turn slowly turn
// slower still.
#pragma once

#include <numbers>

#include "models/graph/attributes.h"

namespace meshwright {

// Divides frequencies, and so all angles, by `factor`. With `original`, the length of the first
// texts, only those that turn less than `low` times over it; those that turn more than `high` times
// stay as they are, and between them the two are blended (Llama 3: The Llama 3 Herd of Models,
// 2024).
struct RotaryScaling {
  double factor = 1, low = 1, high = 4;
  int original = 0;

  explicit constexpr RotaryScaling(const Attributes& a)
      : factor(a.rotary_factor),
        low(a.rotary_low),
        high(a.rotary_high),
        original(a.rotary_original) {}

  // Of a frequency in radians per position.
  constexpr double operator()(double frequency) const {
    if (original == 0) return frequency / factor;
    const double turns = original * frequency / (2 * std::numbers::pi);
    if (turns < low) return frequency / factor;
    if (turns > high) return frequency;
    const double kept = (turns - low) / (high - low);
    return (1 - kept) * frequency / factor + kept * frequency;
  }
};

}  // namespace meshwright
