#include "exec/optimizer/optimizer.h"

#include <cmath>

#include "models/core/error.h"

namespace meshwright {

namespace {

// What is the same for all elements of a step. Powers and differences are formed in double.
struct Factors {
  float gradient, beta1, beta2, one_minus_beta1, one_minus_beta2;
  float step_size;       // learning rate / (1 - beta1^step)
  float inverse_root_2;  // 1 / sqrt(1 - beta2^step)
  float epsilon, decay, learning_rate, momentum;
};

Factors factors_of(const Training& training, const OptimizerScalars& scalars) {
  const double correction_1 = 1 - std::pow(training.beta1, scalars.step);
  const double correction_2 = 1 - std::pow(training.beta2, scalars.step);
  const auto f = [](double x) { return static_cast<float>(x); };
  return {f(scalars.gradient_factor),
          f(training.beta1),
          f(training.beta2),
          f(1 - training.beta1),
          f(1 - training.beta2),
          f(scalars.learning_rate / correction_1),
          f(1 / std::sqrt(correction_2)),
          f(training.epsilon),
          f(training.weight_decay),
          f(scalars.learning_rate),
          f(training.momentum)};
}

// `coupled`: decay is part of the gradient (adam); otherwise `shrink` multiplies the weights.
void adam(const Factors& c, float coupled, float shrink, const OptimizerState& s,
          std::int64_t begin, std::int64_t end) {
  float* __restrict__ weights = s.weights;
  float* __restrict__ first = s.first_moment;
  float* __restrict__ second = s.second_moment;
  const float* __restrict__ gradients = s.gradients;
  for (std::int64_t i = begin; i < end; ++i) {
    const float g = gradients[i] * c.gradient + coupled * weights[i];
    const float m = c.beta1 * first[i] + c.one_minus_beta1 * g;
    const float v = c.beta2 * second[i] + c.one_minus_beta2 * g * g;
    first[i] = m;
    second[i] = v;
    weights[i] =
        weights[i] * shrink - c.step_size * m / (std::sqrt(v) * c.inverse_root_2 + c.epsilon);
  }
}

void adamw_rule(const Factors& c, bool decay, const OptimizerState& s, std::int64_t begin,
                std::int64_t end) {
  adam(c, 0, decay ? 1 - c.learning_rate * c.decay : 1, s, begin, end);
}

void adam_rule(const Factors& c, bool decay, const OptimizerState& s, std::int64_t begin,
               std::int64_t end) {
  adam(c, decay ? c.decay : 0, 1, s, begin, end);
}

void sgd_rule(const Factors& c, bool decay, const OptimizerState& s, std::int64_t begin,
              std::int64_t end) {
  const float coupled = decay ? c.decay : 0;
  float* __restrict__ weights = s.weights;
  float* __restrict__ first = s.first_moment;
  const float* __restrict__ gradients = s.gradients;
  for (std::int64_t i = begin; i < end; ++i) {
    first[i] = c.momentum * first[i] + gradients[i] * c.gradient + coupled * weights[i];
    weights[i] -= c.learning_rate * first[i];
  }
}

using Rule = void (*)(const Factors&, bool decay, const OptimizerState&, std::int64_t begin,
                      std::int64_t end);
struct RuleRow {
  OptimizerKind kind;
  Rule rule;
};
constexpr RuleRow rules[] = {{OptimizerKind::adamw, adamw_rule},
                             {OptimizerKind::adam, adam_rule},
                             {OptimizerKind::sgd, sgd_rule}};

Rule rule_of(OptimizerKind kind) {
  for (const RuleRow& row : rules)
    if (row.kind == kind) return row.rule;
  throw NotSupportedYet(
      "/training/optimizer: " + optimizer_names()[static_cast<std::size_t>(kind)] +
      " cannot be run yet; use adamw, adam or sgd");
}

}  // namespace

void check_supported(OptimizerKind kind) { rule_of(kind); }

void optimizer_step(const Training& training, const OptimizerScalars& scalars,
                    std::span<const OptimizerSegment> segments, const OptimizerState& state,
                    cpu::ThreadPool& pool) {
  const Rule rule = rule_of(training.optimizer);
  const Factors factors = factors_of(training, scalars);
  constexpr std::int64_t grain = 1 << 15;  // elements: long enough to hide handing a piece out
  for (const OptimizerSegment& segment : segments)
    cpu::parallel_for(pool, segment.count, grain, [&](std::int64_t begin, std::int64_t end) {
      rule(factors, segment.decay, state, segment.begin + begin, segment.begin + end);
    });
}

}  // namespace meshwright
