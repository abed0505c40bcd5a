// Scales rotary positions for longer texts than a model was first trained on.
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>

#include "models/program/graph/attributes.h"

namespace meshwright::program {

// Scales the frequencies of rotary positions. If `original` is 0, all are divided by `factor`.
// Otherwise `original` is the length, in tokens, of the texts of the first training. Frequencies of
// pairs that turn less than `low` times over this length are divided by `factor`, those of pairs
// that turn more than `high` times stay, and pairs in between get a blend of both. The share in the
// blend is linear in the number of turns (Llama 3: The Llama 3 Herd of Models, 2024) or, with
// `yarn`, in the index of the pair (Peng et al., "YaRN", 2023). `truncate` rounds the two ends of
// yarn's blend outwards to whole pairs.
struct RotaryScaling {
  double factor = 1, low = 1, high = 4;
  int original = 0;
  bool yarn = false, truncate = true;
  double base = 10000;
  int dim = 0;

  explicit RotaryScaling(const Attributes& a)
      : factor(a.rotary_factor),
        low(a.rotary_low),
        high(a.rotary_high),
        original(a.rotary_original),
        yarn(a.rotary_yarn),
        truncate(a.rotary_truncate),
        base(a.rotary_base),
        dim(a.rotary_dim) {}

  // Returns the angle of a pair in radians per position, after scaling.
  double of_pair(int pair) const {
    const double frequency = std::pow(base, -2.0 * pair / dim);
    if (original == 0) return frequency / factor;
    const double kept = kept_of(frequency, pair);
    if (kept == 0) return frequency / factor;
    if (kept == 1) return frequency;
    return (1 - kept) * frequency / factor + kept * frequency;
  }

 private:
  // Returns the share of the unscaled frequency in the blend, 0 to 1.
  double kept_of(double frequency, int pair) const {
    if (!yarn) {
      const double turns = original * frequency / (2 * std::numbers::pi);
      if (low == high) return turns < low ? 0 : 1;
      return std::clamp((turns - low) / (high - low), 0.0, 1.0);
    }
    double first = pair_that_turns(high), last = pair_that_turns(low);
    if (truncate) first = std::floor(first), last = std::ceil(last);
    first = std::max(first, 0.0), last = std::min(last, dim - 1.0);
    if (first == last) last += 0.001;
    return 1 - std::clamp((pair - first) / (last - first), 0.0, 1.0);
  }
  double pair_that_turns(double times) const {
    return dim * std::log(original / (times * 2 * std::numbers::pi)) / (2 * std::log(base));
  }
};

// Returns the factor by which rope multiplies a query at position `place` of the sequence instead
// of rotating it (Attributes::temperature). Positions count from 1 - position_offset.
inline double temperature_at(const Attributes& a, std::int64_t place) {
  const double far =
      std::floor(static_cast<double>(place + 1 - a.position_offset) / a.temperature_floor);
  return 1 + a.temperature * std::log1p(far);
}

}  // namespace meshwright::program
