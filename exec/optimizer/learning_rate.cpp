#include "exec/optimizer/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace meshwright {

namespace {

// What is left of the learning rate after `done` (0 ... 1) of the steps after warm-up.
double remaining(LearningRateSchedule schedule, double done) {
  switch (schedule) {
    case LearningRateSchedule::constant:
      return 1;
    case LearningRateSchedule::linear:
      return 1 - done;
    case LearningRateSchedule::cosine:
      return 0.5 * (1 + std::cos(std::numbers::pi * done));
  }
  return 1;
}

}  // namespace

double learning_rate_at(const StepSettings& training, std::int64_t step) {
  if (step < training.warmup_steps)
    return training.learning_rate * static_cast<double>(step) / training.warmup_steps;
  const std::int64_t begin = std::max(training.warmup_steps, 1);
  const std::int64_t span = std::max<std::int64_t>(training.steps - begin + 1, 1);
  const double done = std::min(1.0, static_cast<double>(step - begin) / static_cast<double>(span));
  return training.learning_rate * remaining(training.learning_rate_schedule, done);
}

double clip_factor(double norm, double clip) {
  if (clip <= 0) return 1;
  return std::min(1.0, clip / (norm + 1e-6));
}

}  // namespace meshwright
