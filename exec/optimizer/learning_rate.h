// The learning rate of each step, and the factor that clips the gradient: pure functions.
#pragma once

#include <cstdint>

#include "models/program/step_settings.h"

namespace meshwright::exec {

// Returns the learning rate of a step, counted from 1. In the warm-up it grows linearly to
// training.learning_rate at step warmup_steps. Until training.steps it then stays (constant), or
// falls to 0 linearly or as half a cosine, so that it would be 0 one step after the last. With
// warmup_stable_decay it falls linearly in the last decay_steps only (0 means a tenth of the steps,
// rounded up). With inverse_sqrt it is learning_rate * sqrt(max(warmup_steps, 1) / step).
double learning_rate_at(const StepSettings& training, std::int64_t step);

// Returns min(1, clip / (norm + 1e-6)), or 1 if clip is 0 (off).
double clip_factor(double norm, double clip);

}  // namespace meshwright::exec
