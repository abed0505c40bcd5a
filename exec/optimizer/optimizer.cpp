#include "exec/optimizer/optimizer.h"

#include <array>
#include <cmath>

#include "exec/optimizer/adafactor.h"
#include "exec/optimizer/factors.h"
#include "exec/optimizer/random_rounding.h"
#include "exec/optimizer/tiles.h"
#include "models/core/error.h"

namespace meshwright::exec {

namespace {

// Consecutive elements of one segment, at most a tile, with all arrays as Real.
template <typename Real>
struct Elements {
  Real* weights;
  const Real* gradients;
  Real *first, *second;
  std::int64_t count;
  Real decay;  // 0 if no decay applies
  Real trust;  // lamb: |weights| / |update|; muon: muon_scale()
  Real* average;
};

// Updates moments and weights by Adam's rule. `coupled` is the decay that is added to the gradient
// (adam), and `shrink` multiplies the weights (adamw).
template <typename Real>
void adam(const FactorsIn<Real>& c, Real coupled, Real shrink, const Elements<Real>& e) {
  Real* __restrict__ weights = e.weights;
  Real* __restrict__ first = e.first;
  Real* __restrict__ second = e.second;
  const Real* __restrict__ gradients = e.gradients;
  for (std::int64_t i = 0; i < e.count; ++i) {
    const Real g = gradient_of(c, gradients[i]) + coupled * weights[i];
    const Real m = c.beta1 * first[i] + c.one_minus_beta1 * g;
    const Real v = c.beta2 * second[i] + c.one_minus_beta2 * g * g;
    first[i] = m;
    second[i] = v;
    weights[i] =
        weights[i] * shrink - c.step_size * m / (std::sqrt(v) * c.inverse_root_2 + c.epsilon);
  }
}

template <typename Real>
void adamw_rule(const FactorsIn<Real>& c, const Elements<Real>& e) {
  adam<Real>(c, 0, 1 - c.learning_rate * e.decay, e);
}

template <typename Real>
void adam_rule(const FactorsIn<Real>& c, const Elements<Real>& e) {
  adam<Real>(c, e.decay, 1, e);
}

template <typename Real>
void sgd_rule(const FactorsIn<Real>& c, const Elements<Real>& e) {
  Real* __restrict__ weights = e.weights;
  Real* __restrict__ first = e.first;
  const Real* __restrict__ gradients = e.gradients;
  for (std::int64_t i = 0; i < e.count; ++i) {
    first[i] = c.momentum * first[i] + gradient_of(c, gradients[i]) + e.decay * weights[i];
    weights[i] -= c.learning_rate * first[i];
  }
}

template <typename Real>
Real sign(Real x) {
  return static_cast<Real>(x > 0) - static_cast<Real>(x < 0);
}

template <typename Real>
void lion_rule(const FactorsIn<Real>& c, const Elements<Real>& e) {
  Real* __restrict__ weights = e.weights;
  Real* __restrict__ first = e.first;
  const Real* __restrict__ gradients = e.gradients;
  const Real shrink = 1 - c.learning_rate * e.decay;
  for (std::int64_t i = 0; i < e.count; ++i) {
    const Real g = gradient_of(c, gradients[i]);
    const Real update = sign(c.beta1 * first[i] + c.one_minus_beta1 * g);
    first[i] = c.beta2 * first[i] + c.one_minus_beta2 * g;
    weights[i] = weights[i] * shrink - c.learning_rate * update;
  }
}

// Returns what lamb subtracts from a weight, before it is multiplied by the learning rate and the
// trust ratio.
template <typename Real>
Real lamb_update(const FactorsIn<Real>& c, const Elements<Real>& e, std::int64_t i) {
  return e.first[i] * c.inverse_correction /
             (std::sqrt(e.second[i]) * c.inverse_root_2 + c.epsilon) +
         e.decay * e.weights[i];
}

// Updates weights by lamb's rule. The moments are up to date already.
template <typename Real>
void lamb_rule(const FactorsIn<Real>& c, const Elements<Real>& e) {
  const Real size = c.learning_rate * e.trust;
  for (std::int64_t i = 0; i < e.count; ++i) e.weights[i] -= size * lamb_update(c, e, i);
}

struct SquaredNorms {
  double weights = 0, update = 0;
};

template <typename Real>
SquaredNorms lamb_moments(const FactorsIn<Real>& c, const Elements<Real>& e) {
  double weights = 0, update = 0;
#pragma omp simd reduction(+ : weights, update)
  for (std::int64_t i = 0; i < e.count; ++i) {
    const Real g = gradient_of(c, e.gradients[i]);
    e.first[i] = c.beta1 * e.first[i] + c.one_minus_beta1 * g;
    e.second[i] = c.beta2 * e.second[i] + c.one_minus_beta2 * g * g;
    const double w = e.weights[i], u = lamb_update(c, e, i);
    weights += w * w;
    update += u * u;
  }
  return {weights, update};
}

// Updates weights by muon's rule. The gradients hold the update, which is orthogonal already. The
// decay is as in adamw.
void muon_rule(const Factors& c, const Elements<float>& e) {
  const float shrink = 1 - c.learning_rate * e.decay, size = c.learning_rate * e.trust;
  for (std::int64_t i = 0; i < e.count; ++i)
    e.weights[i] = e.weights[i] * shrink - size * e.gradients[i];
}

template <typename Real>
using Rule = void (*)(const FactorsIn<Real>&, const Elements<Real>&);
template <typename Real>
struct RuleRow {
  OptimizerKind kind;
  Rule<Real> rule;
};
template <typename Real>
constexpr RuleRow<Real> rules[] = {
    {OptimizerKind::adamw, adamw_rule}, {OptimizerKind::adam, adam_rule},
    {OptimizerKind::lamb, lamb_rule},   {OptimizerKind::sgd, sgd_rule},
    {OptimizerKind::lion, lion_rule},   {OptimizerKind::muon, adamw_rule}};  // not for matrices

template <typename Real>
Rule<Real> rule_of(OptimizerKind kind) {
  for (const RuleRow<Real>& row : rules<Real>)
    if (row.kind == kind) return row.rule;
  MESHWRIGHT_CHECK(false, "every optimizer has a rule");
  return nullptr;
}

// Returns lamb's factor |weights| / |update|. It is 1, as in Adam, if a norm is 0 or if there are
// no norms.
double trust_of(const OptimizerSegment& segment) {
  if (segment.norms == nullptr || segment.norms[0] <= 0 || segment.norms[1] <= 0) return 1;
  return std::sqrt(segment.norms[0] / segment.norms[1]);
}

// Tells which parts of a state for_each_tile() writes.
struct Writes {
  bool moments = true, weights = true;
};

// Writes both moments of elements [at, at + count). In bf16 they are rounded to nearest, or at
// random by a word of random bits for each element.
void write_moments(const OptimizerState& state, const OptimizerSegment& segment,
                   std::int64_t update, const Tile& first, const Tile& second, std::int64_t at,
                   std::int64_t count) {
  if (!state.moments_at_random || state.moment_type != Dtype::bf16) {
    first.write(state.first_moment, state.moment_type, at, count);
    second.write(state.second_moment, second_moment_type(state.moment_type), at, count);
    return;
  }
  std::array<std::uint32_t, tile> words;
  random_words(*segment.rounding, update, segment.first + (at - segment.begin), count,
               words.data());
  first.write_at_random(state.first_moment, words.data(), 0, at, count);
  second.write_at_random(state.second_moment, words.data(), 16, at, count);
}

// Calls work(elements) for elements [begin, end) of the segment, tile by tile in fp32.
template <typename Work>
void for_each_tile(const OptimizerState& state, const OptimizerSegment& segment,
                   std::int64_t update, Elements<float> elements, std::int64_t begin,
                   std::int64_t end, Writes writes, const Work& work) {
  Tile weights, gradients, first, second;
  begin += segment.begin, end += segment.begin;
  for (std::int64_t at = begin; at < end; at += tile) {
    const std::int64_t count = std::min(tile, end - at);
    elements.count = count;
    elements.weights = read_weights(state, weights, at, count);
    elements.gradients = gradients.read(state.gradients, state.gradient_type, at, count);
    elements.first = first.read(state.first_moment, state.moment_type, at, count);
    elements.second =
        second.read(state.second_moment, second_moment_type(state.moment_type), at, count);
    elements.average = state.average == nullptr ? nullptr : static_cast<float*>(state.average) + at;
    work(elements);
    if (writes.moments) write_moments(state, segment, update, first, second, at, count);
    if (writes.weights) write_weights(state, weights, elements.weights, at, elements.count);
  }
}

// Calls work(elements) once for elements [begin, end) of the segment, in place in fp64.
template <typename Work>
void for_each_tile(const OptimizerState& state, const OptimizerSegment& segment, std::int64_t,
                   Elements<double> elements, std::int64_t begin, std::int64_t end, Writes,
                   const Work& work) {
  const auto from_begin = [&](const void* array) {
    auto* const first = static_cast<double*>(const_cast<void*>(array));
    return first == nullptr ? nullptr : first + segment.begin + begin;
  };
  elements.count = end - begin;
  elements.weights = from_begin(state.weights);
  elements.gradients = from_begin(state.gradients);
  elements.first = from_begin(state.first_moment);
  elements.second = from_begin(state.second_moment);
  elements.average = from_begin(state.average);
  work(elements);
}

template <typename Real>
Elements<Real> elements_of(const OptimizerSegment& segment, const FactorsIn<Real>& factors) {
  Elements<Real> elements{};
  elements.decay = segment.decay ? factors.decay : 0;
  return elements;
}

// Returns the state as the rule of matrices reads it: the update is in place of the gradients, and
// there are no moments.
OptimizerState with_update(OptimizerState state) {
  state.gradients = state.update;
  state.gradient_type = Dtype::f32;
  state.first_moment = state.second_moment = nullptr;
  return state;
}

}  // namespace

double muon_scale(const WholeMatrix& matrix) {
  return 0.2 * std::sqrt(static_cast<double>(std::max(matrix.rows, matrix.columns)));
}

void muon_momentum(const StepSettings& training, const OptimizerScalars& scalars,
                   std::span<const OptimizerSegment> segments, const OptimizerState& state,
                   ThreadPool& pool) {
  const Factors c = factors_of(training, scalars);
  constexpr std::int64_t grain = 1 << 15;
  for (const OptimizerSegment& segment : segments)
    parallel_for(pool, segment.count, grain, [&](std::int64_t begin, std::int64_t end) {
      float* update = state.update + segment.begin + begin;
      for_each_tile(state, segment, scalars.step, Elements<float>{}, begin, end, {.weights = false},
                    [&](const Elements<float>& e) {
                      for (std::int64_t i = 0; i < e.count; ++i) {
                        const float g = gradient_of(c, e.gradients[i]);
                        e.first[i] = c.momentum * e.first[i] + g;
                        update[i] = g + c.momentum * e.first[i];
                      }
                      update += e.count;
                    });
    });
}

void update_choice_biases(double rate, std::span<const ChoiceBias> biases,
                          const OptimizerState& state) {
  const auto step = static_cast<float>(rate);
  for (const ChoiceBias& bias : biases) {
    double all = 0;
    for (std::int64_t e = 0; e < bias.experts; ++e) all += bias.counts[e];
    Tile wide;
    for (std::int64_t at = 0; at < bias.count; at += tile) {
      Elements<float> elements{};
      elements.count = std::min(tile, bias.count - at);
      elements.weights = read_weights(state, wide, bias.begin + at, elements.count);
      const double* counts = bias.counts + bias.first + at;
      for (std::int64_t i = 0; i < elements.count; ++i) {
        const double missing = all - static_cast<double>(bias.experts) * counts[i];
        elements.weights[i] += step * sign(static_cast<float>(missing));
      }
      write_weights(state, wide, elements.weights, bias.begin + at, elements.count);
    }
  }
}

namespace {

template <typename Real>
void step_as(const StepSettings& training, const OptimizerScalars& scalars,
             std::span<const OptimizerSegment> segments, const OptimizerState& state,
             ThreadPool& pool) {
  const bool is_matrix = state.update != nullptr;
  Rule<Real> rule = rule_of<Real>(training.optimizer);
  if constexpr (std::is_same_v<Real, float>)
    if (is_matrix) rule = muon_rule;
  // The moments of matrices and of lamb are already up to date.
  const Writes writes{.moments = !is_matrix && training.optimizer != OptimizerKind::lamb};
  const auto factors = factors_of<Real>(training, scalars);
  constexpr std::int64_t grain = 1 << 15;  // elements: long enough to hide handing a piece out
  for (const OptimizerSegment& segment : segments) {
    Elements<Real> elements = elements_of(segment, factors);
    elements.trust = static_cast<Real>(is_matrix ? muon_scale(*segment.matrix) : trust_of(segment));
    parallel_for(pool, segment.count, grain, [&](std::int64_t begin, std::int64_t end) {
      for_each_tile(is_matrix ? with_update(state) : state, segment, scalars.step, elements, begin,
                    end, writes, [&](const Elements<Real>& some) {
                      rule(factors, some);
                      if (some.average != nullptr)
                        move_average(factors, some.weights, some.count, some.average);
                    });
    });
  }
}

template <typename Real>
void lamb_norms_as(const StepSettings& training, const OptimizerScalars& scalars,
                   std::span<const OptimizerSegment> segments, const OptimizerState& state,
                   ThreadPool& pool) {
  const auto factors = factors_of<Real>(training, scalars);
  constexpr std::int64_t pieces = 256;
  for (const OptimizerSegment& segment : segments) {
    std::array<SquaredNorms, pieces> partial{};
    const std::int64_t grain = (segment.count + pieces - 1) / pieces;
    const Elements<Real> elements = elements_of(segment, factors);
    parallel_for(pool, segment.count, grain, [&](std::int64_t begin, std::int64_t end) {
      SquaredNorms& sum = partial[begin / grain];
      for_each_tile(state, segment, scalars.step, elements, begin, end, {.weights = false},
                    [&](const Elements<Real>& some) {
                      const SquaredNorms norms = lamb_moments(factors, some);
                      sum.weights += norms.weights;
                      sum.update += norms.update;
                    });
    });
    if (!segment.counted) continue;
    for (const SquaredNorms& norms : partial) {
      segment.norms[0] += norms.weights;
      segment.norms[1] += norms.update;
    }
  }
}

}  // namespace

void optimizer_step(const StepSettings& training, const OptimizerScalars& scalars,
                    std::span<const OptimizerSegment> segments, const OptimizerState& state,
                    ThreadPool& pool) {
  if (training.optimizer == OptimizerKind::adafactor)
    return adafactor_step(training, scalars, segments, state, pool);
  (state.weights_type == Dtype::f64 ? step_as<double> : step_as<float>)(training, scalars, segments,
                                                                        state, pool);
}

void lamb_norms(const StepSettings& training, const OptimizerScalars& scalars,
                std::span<const OptimizerSegment> segments, const OptimizerState& state,
                ThreadPool& pool) {
  (state.weights_type == Dtype::f64
       ? lamb_norms_as<double>
       : lamb_norms_as<float>)(training, scalars, segments, state, pool);
}

}  // namespace meshwright::exec
