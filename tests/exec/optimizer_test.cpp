#include "exec/optimizer/optimizer.h"

#include <cmath>
#include <vector>

#include "exec/optimizer/learning_rate.h"
#include "models/core/error.h"
#include "tests/catch.h"

using namespace meshwright;

namespace {

struct Element {
  double weight, first = 0, second = 0;
};

// The published update rules, one element at a time in double precision.
void reference_step(const Training& t, const OptimizerScalars& s, bool decay, double gradient,
                    Element& e) {
  double g = gradient * s.gradient_factor;
  if (decay && t.optimizer != OptimizerKind::adamw) g += t.weight_decay * e.weight;
  if (t.optimizer == OptimizerKind::sgd) {
    e.first = t.momentum * e.first + g;
    e.weight -= s.learning_rate * e.first;
    return;
  }
  if (decay && t.optimizer == OptimizerKind::adamw)
    e.weight -= s.learning_rate * t.weight_decay * e.weight;
  e.first = t.beta1 * e.first + (1 - t.beta1) * g;
  e.second = t.beta2 * e.second + (1 - t.beta2) * g * g;
  const double m = e.first / (1 - std::pow(t.beta1, s.step));
  const double v = e.second / (1 - std::pow(t.beta2, s.step));
  e.weight -= s.learning_rate * m / (std::sqrt(v) + t.epsilon);
}

}  // namespace

TEST_CASE("optimizers follow their published rules", "[exec][optimizer]") {
  constexpr std::int64_t n = 70001;  // more than two pieces, not a multiple of a vector
  const OptimizerSegment segments[] = {{0, 40000, true}, {40000, 30000, false}};  // one is left out
  Training training;
  training.weight_decay = 0.1;
  for (OptimizerKind kind : {OptimizerKind::adamw, OptimizerKind::adam, OptimizerKind::sgd})
    for (int threads : {1, 2}) {
      training.optimizer = kind;
      std::vector<float> weights(n), gradients(n), first(n, 0.0f), second(n, 0.0f);
      std::vector<Element> expected;
      for (std::size_t i = 0; i < n; ++i)
        expected.push_back({weights[i] = float(std::sin(double(i)))});
      cpu::ThreadPool pool(threads);
      for (int step = 1; step <= 5; ++step) {
        const OptimizerScalars scalars{step, 0.01 / step, 0.5};
        for (std::size_t i = 0; i < n; ++i) gradients[i] = float(std::cos(double(i) * step));
        optimizer_step(training, scalars, segments,
                       {weights.data(), gradients.data(), first.data(), second.data()}, pool);
        for (std::size_t i = 0; i < 70000; ++i)
          reference_step(training, scalars, i < 40000, gradients[i], expected[i]);
      }
      double worst = 0;
      for (std::size_t i = 0; i < n; ++i)
        worst = std::max(worst, std::abs(weights[i] - expected[i].weight));
      // Weights are below 1.1 and were rounded to fp32 (2^-24 relative) a few times in five steps.
      CHECK(worst < 2e-6);
      CHECK(weights[70000] == float(std::sin(70000.0)));
    }
}

TEST_CASE("an optimizer that is not built yet is refused", "[exec][optimizer]") {
  CHECK_THROWS_AS(check_supported(OptimizerKind::lamb), NotSupportedYet);
  check_supported(OptimizerKind::adamw);
}

TEST_CASE("learning rates warm up and fall as their schedules say", "[exec][optimizer]") {
  Training training;
  training.learning_rate = 8;
  training.steps = 9;
  CHECK(learning_rate_at(training, 1) == 8);
  CHECK(learning_rate_at(training, 9) == 8);
  // Warm-up of 4 steps: 8 * step / 4.
  training.warmup_steps = 4;
  CHECK(learning_rate_at(training, 1) == 2);
  CHECK(learning_rate_at(training, 3) == 6);
  CHECK(learning_rate_at(training, 4) == 8);
  // From step 4 to 0 at step 10: step 7 is half-way.
  training.learning_rate_schedule = LearningRateSchedule::linear;
  CHECK(learning_rate_at(training, 4) == 8);
  CHECK(learning_rate_at(training, 7) == 4);
  CHECK(learning_rate_at(training, 9) == Approx(8.0 / 6));
  CHECK(learning_rate_at(training, 50) == 0);
  training.learning_rate_schedule = LearningRateSchedule::cosine;
  CHECK(learning_rate_at(training, 4) == 8);
  CHECK(learning_rate_at(training, 7) == Approx(4));
  CHECK(learning_rate_at(training, 6) == Approx(8 * 0.75));  // (1 + cos(pi/3)) / 2
}

TEST_CASE("clipping scales the gradient to the wanted norm, and never up", "[exec][optimizer]") {
  CHECK(clip_factor(10, 0) == 1);
  CHECK(clip_factor(0.5, 1) == 1);
  CHECK(clip_factor(4, 1) == 1 / (4 + 1e-6));
}
