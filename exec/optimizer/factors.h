// The scalars of an optimizer step, in the form in which its kernels use them.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "exec/optimizer/optimizer.h"

#ifdef __CUDACC__
#define MESHWRIGHT_ON_DEVICES_TOO __host__ __device__
#else
#define MESHWRIGHT_ON_DEVICES_TOO
#endif

namespace meshwright::exec {

// The factors that are the same for all elements of a step, in the type in which elements are
// updated. Powers and differences are computed in double.
template <typename Real>
struct FactorsIn {
  Real gradient, beta1, beta2, one_minus_beta1, one_minus_beta2;
  Real inverse_correction;  // 1 / (1 - beta1^step)
  Real step_size;           // learning rate / (1 - beta1^step)
  Real inverse_root_2;      // 1 / sqrt(1 - beta2^step)
  Real epsilon, decay, learning_rate, momentum;
  Real limit;    // largest magnitude of a gradient; infinity: none
  Real average;  // 1 - the decay of the weights' average
  // adafactor: the share of the way that second moments move towards new squares, and the learning
  // rate before it is scaled by a parameter's size.
  Real factor_moves, factor_rate;
};
using Factors = FactorsIn<float>;

// Return adafactor's values for step t, in double: the share of the way that second moments move
// towards new squares, and the learning rate before it is scaled by a parameter's size.
MESHWRIGHT_ON_DEVICES_TOO inline double moves_of(const Adafactor& settings, double step) {
  return pow(step, settings.decay_rate);
}
MESHWRIGHT_ON_DEVICES_TOO inline double rate_of(const Adafactor& settings, double learning_rate,
                                                double step) {
  const double most = 1 / sqrt(step);
  return settings.relative_step && most < learning_rate ? most : learning_rate;
}

// The factors of a parameter's decay and of its update in adafactor. sizes_of() makes them from
// `norms`, the squared norms of its weights and of its update.
struct AdafactorSizes {
  float rate, update;
};
MESHWRIGHT_ON_DEVICES_TOO inline AdafactorSizes sizes_of(const Adafactor& settings, double rate,
                                                         const double* norms, double elements) {
  const double weights = sqrt(norms[0] / elements), update = sqrt(norms[1] / elements);
  const double size = weights > settings.eps2 ? weights : settings.eps2;
  const double own = settings.scale_parameter ? rate * size : rate;
  const double over = update / settings.clip_threshold;
  return {static_cast<float>(own), static_cast<float>(over > 1 ? own / over : own)};
}

template <typename Real = float>
Real limit_of(double gradient_clip_value) {
  return gradient_clip_value > 0 ? static_cast<Real>(gradient_clip_value)
                                 : std::numeric_limits<Real>::infinity();
}

template <typename Real = float>
FactorsIn<Real> factors_of(const StepSettings& training, const OptimizerScalars& scalars) {
  const auto step = static_cast<double>(scalars.step);
  const double correction_1 = 1 - std::pow(training.beta1, step);
  const double correction_2 = 1 - std::pow(training.beta2, step);
  const auto f = [](double x) { return static_cast<Real>(x); };
  return {f(scalars.gradient_factor),
          f(training.beta1),
          f(training.beta2),
          f(1 - training.beta1),
          f(1 - training.beta2),
          f(1 / correction_1),
          f(scalars.learning_rate / correction_1),
          f(1 / std::sqrt(correction_2)),
          f(training.epsilon),
          f(training.weight_decay),
          f(scalars.learning_rate),
          f(training.momentum),
          limit_of<Real>(training.gradient_clip_value),
          f(1 - training.ema_decay),
          f(moves_of(training.adafactor, step)),
          f(rate_of(training.adafactor, scalars.learning_rate, step))};
}

// Returns an element of the gradient after it is multiplied by the step's factor and clipped to
// [-limit, limit].
template <typename Real>
Real gradient_of(const FactorsIn<Real>& c, Real g) {
  return std::min(std::max(g * c.gradient, -c.limit), c.limit);
}

}  // namespace meshwright::exec

#undef MESHWRIGHT_ON_DEVICES_TOO
