// The learning rate of each step, and the factor that clips the gradient: pure functions.
#pragma once

#include <cstdint>

#include "models/program/step_settings.h"

namespace meshwright {

// Steps count from 1. Warm-up: linear, reaching training.learning_rate at step warmup_steps; from
// there to training.steps it stays (constant), falls linearly to 0 or follows half a cosine to 0
// (reached one step after the last); warmup_stable_decay falls in the last decay_steps alone;
// inverse_sqrt is learning_rate * sqrt(warmup_steps / step).
double learning_rate_at(const StepSettings& training, std::int64_t step);

// Returns min(1, clip / (norm + 1e-6)), or 1 if clip is 0 (off).
double clip_factor(double norm, double clip);

}  // namespace meshwright
