// Computes the numbers of a step on the device: the loss scale, and the factors of the update.
#include "exec/backends/cuda/device/launch.h"
#include "exec/backends/cuda/optimizer/optimizer.h"

namespace meshwright::exec::cuda {

namespace {

__device__ bool is_finite(double x) { return x - x == 0; }

__global__ void update_loss_scale_kernel(LossScale rule, const double* loss,
                                         const double* squared_norm, UpdateScalars* scalars,
                                         float* loss_scale) {
  const LossScaleState state = scalars->loss_scale;
  scalars->inverse_scale = 1 / state.scale;
  scalars->skips = 0;
  if (!is_finite(*loss)) return;
  const bool overflow = !is_finite(*squared_norm);
  if (overflow) scalars->skips = 1;
  scalars->loss_scale = after_step(rule, state, overflow);
  *loss_scale = static_cast<float>(scalars->loss_scale.scale);
}

// The settings of a step from which its factors are computed.
struct Rates {
  double beta1, beta2, epsilon, decay, momentum, average;
  float limit;
  Adafactor adafactor;
};

__global__ void prepare_update_kernel(Rates rates, const double* loss, const double* squared_norm,
                                      UpdateScalars* scalars) {
  const double inverse = scalars->inverse_scale * scalars->of_mean,
               norm = sqrt(*squared_norm) * inverse;
  const bool updates = scalars->skips == 0 && is_finite(*loss) && is_finite(norm);
  scalars->updates = updates ? 1 : 0;
  if (!updates) return;
  const double clip = scalars->gradient_clip, fitting = clip / (norm + 1e-6);
  const double factor = (clip <= 0 || fitting > 1 ? 1 : fitting) * inverse;
  const double step = static_cast<double>(++scalars->step), rate = scalars->learning_rate;
  const double correction_1 = 1 - pow(rates.beta1, step), correction_2 = 1 - pow(rates.beta2, step);
  scalars->gradient_factor = factor;
  Factors& f = scalars->factors;
  f.gradient = static_cast<float>(factor);
  f.beta1 = static_cast<float>(rates.beta1);
  f.beta2 = static_cast<float>(rates.beta2);
  f.one_minus_beta1 = static_cast<float>(1 - rates.beta1);
  f.one_minus_beta2 = static_cast<float>(1 - rates.beta2);
  f.inverse_correction = static_cast<float>(1 / correction_1);
  f.step_size = static_cast<float>(rate / correction_1);
  f.inverse_root_2 = static_cast<float>(1 / sqrt(correction_2));
  f.epsilon = static_cast<float>(rates.epsilon);
  f.decay = static_cast<float>(rates.decay);
  f.learning_rate = static_cast<float>(rate);
  f.momentum = static_cast<float>(rates.momentum);
  f.limit = rates.limit;
  f.average = static_cast<float>(rates.average);
  f.factor_moves = static_cast<float>(moves_of(rates.adafactor, step));
  f.factor_rate = static_cast<float>(rate_of(rates.adafactor, rate, step));
}

}  // namespace

void update_loss_scale(const LossScale& rule, const double* loss, const double* squared_norm,
                       UpdateScalars* scalars, float* loss_scale, cudaStream_t stream) {
  launch(update_loss_scale_kernel, {1}, {1}, 0, stream, rule, loss, squared_norm, scalars,
         loss_scale);
}

void prepare_update(const StepSettings& training, const double* loss, const double* squared_norm,
                    UpdateScalars* scalars, cudaStream_t stream) {
  const Rates rates{training.beta1,
                    training.beta2,
                    training.epsilon,
                    training.weight_decay,
                    training.momentum,
                    1 - training.ema_decay,
                    limit_of(training.gradient_clip_value),
                    training.adafactor};
  launch(prepare_update_kernel, {1}, {1}, 0, stream, rates, loss, squared_norm, scalars);
}

}  // namespace meshwright::exec::cuda
