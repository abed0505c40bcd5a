#include "exec/optimizer/eager_optimizer.h"

#include <array>
#include <cmath>

#include "exec/core/half.h"
#include "exec/optimizer/factors.h"
#include "exec/optimizer/remainders.h"
#include "models/core/error.h"
#include "models/program/optimizer_scratch.h"

namespace meshwright::exec {

namespace {

constexpr std::int64_t grain = 1 << 15;  // elements: long enough to hide handing a piece out

// One parameter, or this rank's part of it.
struct OneParameter {
  float* weights;
  float *first, *second;
  const std::byte* gradients;
  Dtype gradient_type;
  std::int64_t count;
  float decay;  // 0 if no decay applies
};

OneParameter parameter_of(const OptimizerSegment& segment, const OptimizerState& state,
                          float decay) {
  const std::int64_t at = segment.begin;
  const auto floats = [&](void* array) {
    return array == nullptr ? nullptr : static_cast<float*>(array) + at;
  };
  return {floats(state.weights),
          floats(state.first_moment),
          floats(state.second_moment),
          static_cast<const std::byte*>(state.gradients) + at * bytes_of(state.gradient_type),
          state.gradient_type,
          segment.count,
          segment.decay ? decay : 0};
}

// Writes x[i] = f(x[i]) for all `count` elements.
template <typename Function>
void pass(ThreadPool& pool, std::int64_t count, float* x, Function f) {
  parallel_for(pool, count, grain, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) x[i] = f(x[i]);
  });
}

// Writes x[i] = f(x[i], y[i]) for all `count` elements.
template <typename Function>
void pass(ThreadPool& pool, std::int64_t count, float* x, const float* y, Function f) {
  parallel_for(pool, count, grain, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) x[i] = f(x[i], y[i]);
  });
}

// Writes x[i] = f(x[i], g[i]), where g are the parameter's gradients, in fp32 whatever their type.
template <typename Function>
void pass_with_gradient(ThreadPool& pool, const OneParameter& p, float* x, Function f) {
  if (p.gradient_type == Dtype::f32)
    return pass(pool, p.count, x, reinterpret_cast<const float*>(p.gradients), f);
  parallel_for(pool, p.count, grain, [=](std::int64_t begin, std::int64_t end) {
    constexpr std::int64_t tile = 4096;
    alignas(64) std::array<float, tile> wide;
    for (std::int64_t at = begin; at < end; at += tile) {
      const std::int64_t count = std::min(tile, end - at);
      widen(p.gradients + at * bytes_of(p.gradient_type), p.gradient_type, count, wide.data());
      const float* g = wide.data();
#pragma omp simd
      for (std::int64_t i = 0; i < count; ++i) x[at + i] = f(x[at + i], g[i]);
    }
  });
}

// Runs Adam's passes: the moments, the denominator, the update of the weights. `with_gradient(x,
// f)` runs a pass x = f(x, g) with the gradients g.
template <typename WithGradient>
void adam(ThreadPool& pool, const Factors& c, const OneParameter& p, float* denominator,
          const WithGradient& with_gradient) {
  with_gradient(p.first, [=](float m, float g) { return c.beta1 * m + c.one_minus_beta1 * g; });
  pass(pool, p.count, p.second, [=](float v) { return c.beta2 * v; });
  with_gradient(p.second, [=](float v, float g) { return v + c.one_minus_beta2 * g * g; });
  pass(pool, p.count, denominator, p.second, [](float, float v) { return std::sqrt(v); });
  pass(pool, p.count, denominator, [=](float d) { return d * c.inverse_root_2; });
  pass(pool, p.count, denominator, [=](float d) { return d + c.epsilon; });
  float* weights = p.weights;
  const float* first = p.first;
  parallel_for(pool, p.count, grain, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i)
      weights[i] -= c.step_size * first[i] / denominator[i];
  });
}

void adamw(ThreadPool& pool, const Factors& c, const OneParameter& p, float* scratch) {
  if (p.decay != 0)
    pass(pool, p.count, p.weights,
         [shrink = 1 - c.learning_rate * p.decay](float w) { return w * shrink; });
  adam(pool, c, p, scratch, [&](float* x, auto f) {
    pass_with_gradient(pool, p, x,
                       [=](float value, float g) { return f(value, gradient_of(c, g)); });
  });
}

// Runs Adam with the decay added to the gradient. `sum` receives this sum, as a tensor of its own.
void adam_with_decay(ThreadPool& pool, const Factors& c, const OneParameter& p, float* scratch,
                     float* sum) {
  pass(pool, p.count, sum, p.weights, [=](float, float w) { return p.decay * w; });
  pass_with_gradient(pool, p, sum, [=](float decay, float g) { return gradient_of(c, g) + decay; });
  adam(pool, c, p, scratch, [&](float* x, auto f) { pass(pool, p.count, x, sum, f); });
}

void sgd(ThreadPool& pool, const Factors& c, const OneParameter& p) {
  pass(pool, p.count, p.first, [=](float m) { return c.momentum * m; });
  pass_with_gradient(pool, p, p.first, [=](float m, float g) { return m + gradient_of(c, g); });
  if (p.decay != 0)
    pass(pool, p.count, p.first, p.weights, [=](float m, float w) { return m + p.decay * w; });
  pass(pool, p.count, p.weights, p.first,
       [=](float w, float m) { return w - c.learning_rate * m; });
}

// Updates weights and moments by lion's rule, in the order of its authors' code: decay, then the
// update, then the moment.
void lion(ThreadPool& pool, const Factors& c, const OneParameter& p, float* update) {
  if (p.decay != 0)
    pass(pool, p.count, p.weights,
         [shrink = 1 - c.learning_rate * p.decay](float w) { return w * shrink; });
  pass(pool, p.count, update, p.first, [=](float, float m) { return c.beta1 * m; });
  pass_with_gradient(pool, p, update,
                     [=](float u, float g) { return u + c.one_minus_beta1 * gradient_of(c, g); });
  pass(pool, p.count, update,
       [=](float u) { return static_cast<float>(u > 0) - static_cast<float>(u < 0); });
  pass(pool, p.count, p.weights, update, [=](float w, float u) { return w - c.learning_rate * u; });
  pass(pool, p.count, p.first, [=](float m) { return c.beta2 * m; });
  pass_with_gradient(pool, p, p.first,
                     [=](float m, float g) { return m + c.one_minus_beta2 * gradient_of(c, g); });
}

void copy_to_working(ThreadPool& pool, const OptimizerSegment& segment,
                     const OptimizerState& state) {
  auto* to = static_cast<std::byte*>(state.working);
  parallel_for(pool, segment.count, grain, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t at = segment.begin + begin;
    round_masters(static_cast<const float*>(state.weights) + at, state.working_type, end - begin,
                  to + at * bytes_of(state.working_type));
  });
}

}  // namespace

void eager_optimizer_step(const StepSettings& training, const OptimizerScalars& scalars,
                          std::span<const OptimizerSegment> segments, const OptimizerState& state,
                          ThreadPool& pool) {
  if (measures_parameters(training.optimizer) || state.moment_type != Dtype::f32 ||
      state.weights_type != Dtype::f32)
    return optimizer_step(training, scalars, segments, state, pool);
  const Factors factors = factors_of(training, scalars);
  const int arrays = optimizer_scratch_arrays(training);
  for (const OptimizerSegment& segment : segments) {
    MESHWRIGHT_CHECK(arrays * segment.count <= state.scratch_elements,
                     "the scratch memory holds the largest parameter");
    const OneParameter p = parameter_of(segment, state, factors.decay);
    if (training.optimizer == OptimizerKind::sgd)
      sgd(pool, factors, p);
    else if (training.optimizer == OptimizerKind::lion)
      lion(pool, factors, p, state.scratch);
    else if (training.optimizer != OptimizerKind::adam || p.decay == 0)
      adamw(pool, factors, p, state.scratch);
    else
      adam_with_decay(pool, factors, p, state.scratch, state.scratch + segment.count);
    if (state.working != nullptr) copy_to_working(pool, segment, state);
    if (state.average != nullptr)
      pass(pool, segment.count, static_cast<float*>(state.average) + segment.begin, p.weights,
           [=](float a, float w) { return a + factors.average * (w - a); });
  }
}

}  // namespace meshwright::exec
