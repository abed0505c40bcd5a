// Tests pairs of optimizer settings: adafactor and muon with averages, decay of some parameters
// only, and masters next to 16-bit copies. They are compared with the rules in plain code in
// doubles.
#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "exec/optimizer/adafactor.h"
#include "exec/optimizer/optimizer.h"
#include "tests/catch.h"

using namespace meshwright::tests;

namespace {

// There are two parameters in a bucket, with an element between them that belongs to neither. The
// bucket is longer than a tile, and no multiple of one.
constexpr std::int64_t n = 9001;
constexpr std::int64_t begins[] = {0, 5001}, counts[] = {5000, 4000};
constexpr bool decays[] = {true, false};

float weight_at(std::size_t i) { return static_cast<float>(std::sin(static_cast<double>(i))); }
float gradient_at(std::size_t i, int step) {
  return static_cast<float>(std::cos(static_cast<double>(i) * step) *
                            static_cast<double>(i % 7 + 1) / 4);
}

struct Plain {
  std::vector<double> weights, second, average;

  Plain() : second(n) {
    for (std::size_t i = 0; i < n; ++i) weights.push_back(weight_at(i));
    average = weights;
  }

  // Adafactor's rule for parameters that are no matrices: a second moment whose decay grows with
  // the steps, an update that is clipped by its root mean square, and a rate in proportion to the
  // weights' root mean square.
  void step(const StepSettings& training, int step, double factor) {
    const Adafactor& a = training.adafactor;
    const double moves = std::pow(step, a.decay_rate);
    for (int p = 0; p < 2; ++p) {
      double squares = 0, of_weights = 0;
      std::vector<double> update;
      for (std::int64_t k = 0; k < counts[p]; ++k) {
        const auto i = static_cast<std::size_t>(begins[p] + k);
        const double g = gradient_at(i, step) * factor;
        second[i] += moves * (g * g + a.eps1 - second[i]);
        update.push_back(g / std::sqrt(second[i]));
        squares += update.back() * update.back();
        of_weights += weights[i] * weights[i];
      }
      const auto count = static_cast<double>(counts[p]);
      const double rms = std::sqrt(squares / count);
      double rate = training.learning_rate;
      if (a.scale_parameter) rate *= std::max(a.eps2, std::sqrt(of_weights / count));
      for (std::int64_t k = 0; k < counts[p]; ++k) {
        const auto i = static_cast<std::size_t>(begins[p] + k);
        weights[i] =
            weights[i] * (1 - rate * (decays[p] ? training.weight_decay : 0)) -
            rate / std::max(1.0, rms / a.clip_threshold) * update[static_cast<std::size_t>(k)];
        average[i] = training.ema_decay * average[i] + (1 - training.ema_decay) * weights[i];
      }
    }
  }
};

// The same step by the engine, with masters in fp32.
struct Held {
  std::vector<float> weights, gradients, second, average;
  std::vector<std::uint16_t> working;
  std::vector<double> norms = std::vector<double>(4);
  AdafactorParameter about[2];

  Held() : gradients(n), second(n), working(n) {
    for (std::size_t i = 0; i < n; ++i) weights.push_back(weight_at(i));
    average = weights;
    for (int p = 0; p < 2; ++p) about[p].elements = about[p].width = counts[p];
  }

  void step(const StepSettings& training, int number, double factor, int threads) {
    for (std::size_t i = 0; i < n; ++i) gradients[i] = gradient_at(i, number);
    std::fill(norms.begin(), norms.end(), 0);
    std::vector<OptimizerSegment> segments;
    for (int p = 0; p < 2; ++p) {
      OptimizerSegment segment{begins[p], counts[p], decays[p], norms.data() + 2 * p};
      segment.adafactor = &about[p];
      segments.push_back(segment);
    }
    OptimizerState state{weights.data(), gradients.data(), nullptr, second.data()};
    state.average = average.data();
    state.working = working.data();
    state.working_type = Dtype::bf16;
    ThreadPool pool(threads);
    const OptimizerScalars scalars{number, training.learning_rate, factor};
    adafactor_sums(training, scalars, segments, state, pool);
    adafactor_norms(training, scalars, segments, state, pool);
    optimizer_step(training, scalars, segments, state, pool);
  }
};

}  // namespace

TEST_CASE("adafactor with averages and decay of some parameters follows its rule",
          "[exec][optimizer]") {
  StepSettings training;
  training.optimizer = OptimizerKind::adafactor;
  training.learning_rate = 0.05;
  training.weight_decay = 0.25;
  training.ema_decay = 0.75;
  training.adafactor.scale_parameter = GENERATE(false, true);
  training.adafactor.relative_step = false;
  training.adafactor.clip_threshold = GENERATE(0.5, 8.0);  // the first clips, the second never does
  Plain plain;
  Held held, on_one;
  for (int step = 1; step <= 3; ++step) {
    plain.step(training, step, 0.5);
    held.step(training, step, 0.5, 3);
    on_one.step(training, step, 0.5, 1);
  }
  CHECK(held.weights == on_one.weights);
  double worst = 0, of_average = 0, of_second = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (i == 5000) continue;
    worst = std::max(worst, std::abs(held.weights[i] - plain.weights[i]));
    of_average = std::max(of_average, std::abs(held.average[i] - plain.average[i]));
    of_second = std::max(of_second, std::abs(held.second[i] - plain.second[i]));
  }
  // The numbers are below 2, and a step has about ten roundings to fp32.
  CHECK(worst < 3 * 10 * 0x1p-23);
  CHECK(of_average < 3 * 10 * 0x1p-23);
  CHECK(of_second < 3 * 10 * 0x1p-23);
  CHECK(held.weights[5000] == weight_at(5000));
  CHECK(held.average[5000] == weight_at(5000));
  CHECK(held.working[5000] == 0);
  // Masters are rounded to the nearest 16-bit number, and up if two are equally near, as masters
  // with remainders are.
  for (std::size_t i = 0; i < n; ++i)
    if (i != 5000)
      REQUIRE(held.working[i] ==
              static_cast<std::uint16_t>(
                  (std::bit_cast<std::uint32_t>(held.weights[i]) + 0x8000U) >> 16U));
}

TEST_CASE("muon with averages and decay of some matrices follows its rule", "[exec][optimizer]") {
  StepSettings training;
  training.optimizer = OptimizerKind::muon;
  training.learning_rate = 0.5;
  training.weight_decay = 0.25;
  training.ema_decay = 0.75;
  const WholeMatrix wide{1, 50, 100}, tall{1, 80, 50};
  std::vector<float> weights, update;
  for (std::size_t i = 0; i < n; ++i)
    weights.push_back(weight_at(i)), update.push_back(gradient_at(i, 1));
  std::vector<float> average = weights, first(n), gradients(n);
  OptimizerSegment segments[2] = {{begins[0], counts[0], decays[0]},
                                  {begins[1], counts[1], decays[1]}};
  segments[0].matrix = &wide, segments[1].matrix = &tall;
  OptimizerState state{weights.data(), gradients.data(), first.data()};
  state.update = update.data();
  state.average = average.data();
  ThreadPool pool(2);
  optimizer_step(training, {1, training.learning_rate, 1}, segments, state, pool);
  // The elements of an update are as large as AdamW's if they are multiplied by 0.2 times the root
  // of the longer side's length.
  const double scales[] = {0.2 * std::sqrt(100.0), 0.2 * std::sqrt(80.0)};
  for (int p = 0; p < 2; ++p)
    for (std::int64_t k = 0; k < counts[p]; ++k) {
      const auto i = static_cast<std::size_t>(begins[p] + k);
      const double begin = weight_at(i);
      const double expected = begin * (1 - 0.5 * (decays[p] ? 0.25 : 0)) -
                              0.5 * scales[p] * static_cast<double>(gradient_at(i, 1));
      REQUIRE(weights[i] == Approx(expected).margin(1e-6));
      REQUIRE(average[i] == Approx(0.75 * begin + 0.25 * expected).margin(1e-6));
    }
  CHECK(weights[5000] == weight_at(5000));
  CHECK(average[5000] == weight_at(5000));
}
