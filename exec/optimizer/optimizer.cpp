#include "exec/optimizer/optimizer.h"

#include <array>
#include <cmath>

#include "exec/core/half.h"
#include "exec/optimizer/factors.h"
#include "models/core/error.h"

namespace meshwright {

namespace {

// Consecutive elements of one segment, gradients in fp32.
struct Elements {
  float* weights;
  const float* gradients;
  float *first, *second;
  std::int64_t count;
  float decay;  // 0 where none applies
  float trust;  // lamb: |weights| / |update|
};

// `coupled`: decay is part of the gradient (adam); otherwise `shrink` multiplies the weights.
void adam(const Factors& c, float coupled, float shrink, const Elements& e) {
  float* __restrict__ weights = e.weights;
  float* __restrict__ first = e.first;
  float* __restrict__ second = e.second;
  const float* __restrict__ gradients = e.gradients;
  for (std::int64_t i = 0; i < e.count; ++i) {
    const float g = gradients[i] * c.gradient + coupled * weights[i];
    const float m = c.beta1 * first[i] + c.one_minus_beta1 * g;
    const float v = c.beta2 * second[i] + c.one_minus_beta2 * g * g;
    first[i] = m;
    second[i] = v;
    weights[i] =
        weights[i] * shrink - c.step_size * m / (std::sqrt(v) * c.inverse_root_2 + c.epsilon);
  }
}

void adamw_rule(const Factors& c, const Elements& e) {
  adam(c, 0, 1 - c.learning_rate * e.decay, e);
}

void adam_rule(const Factors& c, const Elements& e) { adam(c, e.decay, 1, e); }

void sgd_rule(const Factors& c, const Elements& e) {
  float* __restrict__ weights = e.weights;
  float* __restrict__ first = e.first;
  const float* __restrict__ gradients = e.gradients;
  for (std::int64_t i = 0; i < e.count; ++i) {
    first[i] = c.momentum * first[i] + gradients[i] * c.gradient + e.decay * weights[i];
    weights[i] -= c.learning_rate * first[i];
  }
}

// What lamb would subtract, but for the learning rate and the trust.
float lamb_update(const Factors& c, const Elements& e, std::int64_t i) {
  return e.first[i] * c.inverse_correction /
             (std::sqrt(e.second[i]) * c.inverse_root_2 + c.epsilon) +
         e.decay * e.weights[i];
}

// The moments are up to date.
void lamb_rule(const Factors& c, const Elements& e) {
  const float size = c.learning_rate * e.trust;
  for (std::int64_t i = 0; i < e.count; ++i) e.weights[i] -= size * lamb_update(c, e, i);
}

struct SquaredNorms {
  double weights = 0, update = 0;
};

SquaredNorms lamb_moments(const Factors& c, const Elements& e) {
  double weights = 0, update = 0;
#pragma omp simd reduction(+ : weights, update)
  for (std::int64_t i = 0; i < e.count; ++i) {
    const float g = e.gradients[i] * c.gradient;
    e.first[i] = c.beta1 * e.first[i] + c.one_minus_beta1 * g;
    e.second[i] = c.beta2 * e.second[i] + c.one_minus_beta2 * g * g;
    const double w = e.weights[i], u = lamb_update(c, e, i);
    weights += w * w;
    update += u * u;
  }
  return {weights, update};
}

using Rule = void (*)(const Factors&, const Elements&);
struct RuleRow {
  OptimizerKind kind;
  Rule rule;
};
constexpr RuleRow rules[] = {{OptimizerKind::adamw, adamw_rule},
                             {OptimizerKind::adam, adam_rule},
                             {OptimizerKind::lamb, lamb_rule},
                             {OptimizerKind::sgd, sgd_rule}};

Rule rule_of(OptimizerKind kind) {
  for (const RuleRow& row : rules)
    if (row.kind == kind) return row.rule;
  MESHWRIGHT_CHECK(false, "every optimizer has a rule");
  return nullptr;
}

// A parameter that is all zeros, or is not to move, is stepped as Adam does.
float trust_of(const OptimizerSegment& segment) {
  if (segment.norms == nullptr || segment.norms[0] <= 0 || segment.norms[1] <= 0) return 1;
  return static_cast<float>(std::sqrt(segment.norms[0] / segment.norms[1]));
}

// Calls work(elements, begin) for elements [begin, end) of the state, in tiles whose gradients are
// in fp32.
template <typename Work>
void for_each_tile(const OptimizerState& state, Elements elements, std::int64_t begin,
                   std::int64_t end, const Work& work) {
  constexpr std::int64_t tile = 4096;
  alignas(64) std::array<float, tile> wide;
  const auto* gradients = static_cast<const std::byte*>(state.gradients);
  for (std::int64_t at = begin; at < end; at += tile) {
    elements.count = std::min(tile, end - at);
    const std::byte* from = gradients + at * bytes_of(state.gradient_type);
    if (state.gradient_type == Dtype::f32) {
      elements.gradients = reinterpret_cast<const float*>(from);
    } else {
      widen(from, state.gradient_type, elements.count, wide.data());
      elements.gradients = wide.data();
    }
    elements.weights = state.weights + at;
    elements.first = state.first_moment + at;
    elements.second = state.second_moment == nullptr ? nullptr : state.second_moment + at;
    work(elements, at);
  }
}

Elements elements_of(const OptimizerSegment& segment, const Factors& factors) {
  Elements elements{};
  elements.decay = segment.decay ? factors.decay : 0;
  return elements;
}

}  // namespace

void optimizer_step(const StepSettings& training, const OptimizerScalars& scalars,
                    std::span<const OptimizerSegment> segments, const OptimizerState& state,
                    ThreadPool& pool) {
  const Rule rule = rule_of(training.optimizer);
  const Factors factors = factors_of(training, scalars);
  auto* working = static_cast<std::byte*>(state.working);
  constexpr std::int64_t grain = 1 << 15;  // elements: long enough to hide handing a piece out
  for (const OptimizerSegment& segment : segments) {
    Elements elements = elements_of(segment, factors);
    elements.trust = trust_of(segment);
    parallel_for(pool, segment.count, grain, [&](std::int64_t begin, std::int64_t end) {
      for_each_tile(state, elements, segment.begin + begin, segment.begin + end,
                    [&](const Elements& tile, std::int64_t at) {
                      rule(factors, tile);
                      if (working != nullptr)
                        narrow(tile.weights, state.working_type, tile.count,
                               working + at * bytes_of(state.working_type));
                    });
    });
  }
}

void lamb_norms(const StepSettings& training, const OptimizerScalars& scalars,
                std::span<const OptimizerSegment> segments, const OptimizerState& state,
                ThreadPool& pool) {
  const Factors factors = factors_of(training, scalars);
  constexpr std::int64_t pieces = 256;
  for (const OptimizerSegment& segment : segments) {
    std::array<SquaredNorms, pieces> partial{};
    const std::int64_t grain = (segment.count + pieces - 1) / pieces;
    const Elements elements = elements_of(segment, factors);
    parallel_for(pool, segment.count, grain, [&](std::int64_t begin, std::int64_t end) {
      SquaredNorms& sum = partial[static_cast<std::size_t>(begin / grain)];
      for_each_tile(state, elements, segment.begin + begin, segment.begin + end,
                    [&](const Elements& tile, std::int64_t) {
                      const SquaredNorms norms = lamb_moments(factors, tile);
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

}  // namespace meshwright
