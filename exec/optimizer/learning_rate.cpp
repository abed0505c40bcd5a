#include "exec/optimizer/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace meshwright::exec {

namespace {

// Returns the share of the learning rate that is left after the share `done` (0 to 1) of the steps
// in which it falls.
double remaining(LearningRateSchedule schedule, double done) {
  switch (schedule) {
    case LearningRateSchedule::constant:
      return 1;
    case LearningRateSchedule::linear:
    case LearningRateSchedule::warmup_stable_decay:
      return 1 - done;
    case LearningRateSchedule::cosine:
      return 0.5 * (1 + std::cos(std::numbers::pi * done));
    case LearningRateSchedule::inverse_sqrt:
      break;  // knows no end
  }
  return 1;
}

// Returns the step from which the learning rate falls.
std::int64_t begin_of_decay(const StepSettings& training) {
  const std::int64_t begin = std::max(training.warmup_steps, 1);
  if (training.learning_rate_schedule != LearningRateSchedule::warmup_stable_decay) return begin;
  const int steps = training.decay_steps > 0 ? training.decay_steps : (training.steps + 9) / 10;
  return std::max<std::int64_t>(begin, training.steps - steps);
}

}  // namespace

double learning_rate_at(const StepSettings& training, std::int64_t step) {
  if (step < training.warmup_steps)
    return training.learning_rate * static_cast<double>(step) / training.warmup_steps;
  if (training.learning_rate_schedule == LearningRateSchedule::inverse_sqrt)
    return training.learning_rate *
           std::sqrt(std::max(training.warmup_steps, 1) / static_cast<double>(step));
  const std::int64_t begin = begin_of_decay(training);
  const std::int64_t span = std::max<std::int64_t>(training.steps - begin + 1, 1);
  const double done =
      std::clamp(static_cast<double>(step - begin) / static_cast<double>(span), 0.0, 1.0);
  return training.learning_rate * remaining(training.learning_rate_schedule, done);
}

double clip_factor(double norm, double clip) {
  if (clip <= 0) return 1;
  return std::min(1.0, clip / (norm + 1e-6));
}

}  // namespace meshwright::exec
