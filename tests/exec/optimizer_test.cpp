#include "exec/optimizer/optimizer.h"

#include <bit>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "exec/core/half.h"
#include "exec/optimizer/eager_optimizer.h"
#include "exec/optimizer/learning_rate.h"
#include "exec/optimizer/loss_scale.h"
#include "exec/optimizer/remainders.h"
#include "models/core/error.h"
#include "models/program/optimizer_scratch.h"
#include "tests/catch.h"

using namespace meshwright::tests;

namespace {

struct Element {
  double weight, first = 0, second = 0;
};

// Applies the published update rules to one element in double precision.
void reference_step(const StepSettings& t, const OptimizerScalars& s, bool decay, double gradient,
                    Element& e) {
  double g = gradient * s.gradient_factor;
  if (t.gradient_clip_value > 0) g = std::clamp(g, -t.gradient_clip_value, t.gradient_clip_value);
  if (t.optimizer == OptimizerKind::lion) {
    const double update = t.beta1 * e.first + (1 - t.beta1) * g;
    if (decay) e.weight -= s.learning_rate * t.weight_decay * e.weight;
    e.weight -= s.learning_rate * double((update > 0) - (update < 0));
    e.first = t.beta2 * e.first + (1 - t.beta2) * g;
    return;
  }
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

// Weights are below 1.1 and were rounded to Real a few times in five steps: 2^-24 or 2^-53
// relative.
template <typename Real>
constexpr double few_roundings = std::is_same_v<Real, double> ? 1e-14 : 2e-6;

template <typename Real>
OptimizerState state_of(std::vector<Real>& weights, const std::vector<Real>& gradients,
                        std::vector<Real>& first, std::vector<Real>& second) {
  OptimizerState state{weights.data(), gradients.data(), first.data(), second.data()};
  if (std::is_same_v<Real, double>)
    state.weights_type = state.gradient_type = state.moment_type = Dtype::f64;
  return state;
}

}  // namespace

TEMPLATE_TEST_CASE("optimizers follow their published rules, in one kernel and in a framework's",
                   "[exec][optimizer]", float, double) {
  constexpr std::int64_t n = 70001;  // more than two pieces, not a multiple of a vector
  const OptimizerSegment segments[] = {{0, 40000, true}, {40000, 30000, false}};  // one is left out
  StepSettings training;
  training.weight_decay = 0.1;
  const bool by_framework = GENERATE(false, true);
  if (by_framework) training.compiler = CompilerLevel::none;
  const auto step_by = by_framework ? eager_optimizer_step : optimizer_step;
  training.gradient_clip_value = GENERATE(0, 0.25);
  for (OptimizerKind kind :
       {OptimizerKind::adamw, OptimizerKind::adam, OptimizerKind::sgd, OptimizerKind::lion})
    for (int threads : {1, 2}) {
      training.optimizer = kind;
      std::vector<float> scratch(std::size_t(40000 * optimizer_scratch_arrays(training)));
      std::vector<TestType> weights(n), gradients(n), first(n), second(n);
      std::vector<Element> expected;
      for (std::size_t i = 0; i < n; ++i)
        expected.push_back({weights[i] = TestType(std::sin(double(i)))});
      ThreadPool pool(threads);
      for (int step = 1; step <= 5; ++step) {
        const OptimizerScalars scalars{step, 0.01 / step, 0.5};
        for (std::size_t i = 0; i < n; ++i) gradients[i] = TestType(std::cos(double(i) * step));
        OptimizerState state = state_of(weights, gradients, first, second);
        state.scratch = scratch.data();
        state.scratch_elements = static_cast<std::int64_t>(scratch.size());
        step_by(training, scalars, std::span(segments), state, pool);
        for (std::size_t i = 0; i < 70000; ++i)
          reference_step(training, scalars, i < 40000, gradients[i], expected[i]);
      }
      double worst = 0;
      for (std::size_t i = 0; i < n; ++i)
        worst = std::max(worst, std::abs(weights[i] - expected[i].weight));
      CHECK(worst < few_roundings<TestType>);
      CHECK(weights[70000] == TestType(std::sin(70000.0)));
    }
}

// Compares lamb with Algorithm 2 of You et al. 2019, one parameter at a time in double precision.
TEMPLATE_TEST_CASE("lamb scales Adam's update by the norms of the whole parameter",
                   "[exec][optimizer]", float, double) {
  StepSettings training;
  training.optimizer = OptimizerKind::lamb;
  training.weight_decay = 0.1;
  constexpr std::size_t n = 70001, zeros = 1000;  // the second parameter begins at zero
  std::vector<TestType> weights(n + zeros), gradients(n + zeros), first(n + zeros),
      second(n + zeros);
  std::vector<Element> expected(n + zeros, Element{0});
  for (std::size_t i = 0; i < n; ++i)
    expected[i].weight = weights[i] = TestType(std::sin(double(i)));
  ThreadPool pool(2);
  const OptimizerState state = state_of(weights, gradients, first, second);
  for (int step = 1; step <= 4; ++step) {
    const OptimizerScalars scalars{step, 0.01, 0.5};
    for (std::size_t i = 0; i < n + zeros; ++i) gradients[i] = TestType(std::cos(double(i) * step));
    double norms[2][2] = {};
    const OptimizerSegment segments[] = {{0, n, true, norms[0]}, {n, zeros, false, norms[1]}};
    lamb_norms(training, scalars, std::span(segments), state, pool);
    optimizer_step(training, scalars, std::span(segments), state, pool);
    for (const auto& [begin, end, decay] :
         {std::tuple{std::size_t{0}, n, 0.1}, std::tuple{n, n + zeros, 0.0}}) {
      double w2 = 0, u2 = 0;
      std::vector<double> updates;
      for (std::size_t i = begin; i < end; ++i) {
        Element& e = expected[i];
        const double g = gradients[i] * 0.5;
        e.first = training.beta1 * e.first + (1 - training.beta1) * g;
        e.second = training.beta2 * e.second + (1 - training.beta2) * g * g;
        const double m = e.first / (1 - std::pow(training.beta1, step));
        const double v = e.second / (1 - std::pow(training.beta2, step));
        updates.push_back(m / (std::sqrt(v) + training.epsilon) + decay * e.weight);
        w2 += e.weight * e.weight;
        u2 += updates.back() * updates.back();
      }
      const double trust = w2 > 0 && u2 > 0 ? std::sqrt(w2 / u2) : 1;
      for (std::size_t i = begin; i < end; ++i)
        expected[i].weight -= 0.01 * trust * updates[i - begin];
    }
  }
  double worst = 0;
  for (std::size_t i = 0; i < n + zeros; ++i)
    worst = std::max(worst, std::abs(weights[i] - expected[i].weight));
  CHECK(worst < few_roundings<TestType>);
  CHECK(std::abs(weights[n]) > 1e-3);
}

TEST_CASE("a second holder of the same elements adds nothing to lamb's norms",
          "[exec][optimizer]") {
  StepSettings training;
  training.optimizer = OptimizerKind::lamb;
  float weight = 3, gradient = 1, first = 0, second = 0;
  double norms[2] = {5, 7};
  ThreadPool pool(1);
  const OptimizerSegment segment{0, 1, true, norms, false};
  lamb_norms(training, {}, {&segment, 1}, {&weight, &gradient, &first, &second}, pool);
  CHECK(norms[0] == 5);
  CHECK(norms[1] == 7);
  CHECK(first == Approx(0.1));  // the moments move nevertheless
}

TEST_CASE("lamb leaves a parameter that is not to move where it is", "[exec][optimizer]") {
  StepSettings training;
  training.optimizer = OptimizerKind::lamb;
  float weight = 3, gradient = 0, first = 0, second = 0;
  double norms[2] = {};
  ThreadPool pool(1);
  const OptimizerSegment segment{0, 1, false, norms};
  const OptimizerState state{&weight, &gradient, &first, &second};
  const OptimizerScalars scalars{1, 0.01, 1};
  lamb_norms(training, scalars, {&segment, 1}, state, pool);
  CHECK(norms[0] == 9);
  CHECK(norms[1] == 0);
  optimizer_step(training, scalars, {&segment, 1}, state, pool);
  CHECK(weight == 3);
}

TEST_CASE("16-bit gradients are read, and a 16-bit copy of the weights made", "[exec][optimizer]") {
  const Dtype dtype = GENERATE(Dtype::f16, Dtype::bf16);
  constexpr std::int64_t n = 9001;
  StepSettings training;
  std::vector<float> gradients(n), weights(n), first(n), second(n);
  for (std::size_t i = 0; i < n; ++i) {
    gradients[i] = float(std::cos(double(i)));
    weights[i] = float(std::sin(double(i)));
  }
  std::vector<std::uint16_t> narrowed(n), working(n), expected(n);
  narrow(gradients.data(), dtype, n, narrowed.data());
  widen(narrowed.data(), dtype, n, gradients.data());
  std::vector<float> weights_2 = weights, first_2 = first, second_2 = second;
  ThreadPool pool(1);
  const OptimizerSegment all{0, n, true};
  const OptimizerScalars scalars{1, 0.01, 1};
  optimizer_step(training, scalars, {&all, 1},
                 {weights.data(), gradients.data(), first.data(), second.data()}, pool);
  OptimizerState state{weights_2.data(), narrowed.data(), first_2.data(), second_2.data()};
  state.gradient_type = state.working_type = dtype;
  state.working = working.data();
  optimizer_step(training, scalars, {&all, 1}, state, pool);
  CHECK(weights == weights_2);
  round_masters(weights.data(), dtype, n, expected.data());
  CHECK(working == expected);
}

TEST_CASE("a bf16 and its remainder are the fp32 number, bit by bit", "[exec][optimizer]") {
  const std::uint32_t uppers[] = {0x0000, 0x0001, 0x3f7f, 0x3f80, 0x3fff, 0x7f7f,
                                  0x7f80, 0x8000, 0x807f, 0xbf7f, 0xff7f, 0xff80};
  for (const std::uint32_t upper : uppers)
    for (std::uint32_t lower = 0; lower < 0x10000; ++lower) {
      const float number = std::bit_cast<float>(upper << 16 | lower);
      if (std::isnan(number)) continue;
      const SplitNumber parts = split(number);
      REQUIRE(std::bit_cast<std::uint32_t>(join(parts)) == std::bit_cast<std::uint32_t>(number));
      const bool tie = lower == 0x8000;  // rounded away from zero, unlike reference_bfloat16()
      REQUIRE(parts.upper.bits == (tie ? upper + 1 : reference_bfloat16(number).bits));
    }
  for (const std::uint32_t bits : {0x7f800001U, 0x7fc00000U, 0x7fffffffU, 0xffff8000U}) {
    const SplitNumber parts = split(std::bit_cast<float>(bits));
    CHECK(std::isnan(reference_value(parts.upper)));
    CHECK(std::isnan(join(parts)));
  }
}

namespace {

// A bucket whose states are kept in some types, with its steps.
struct Kept {
  std::vector<float> masters, first, second;
  std::vector<std::uint16_t> working, remainders, first_16, second_16;
  OptimizerState state;

  Kept(const std::vector<float>& weights, Dtype master, Dtype moment)
      : masters(weights),
        first(weights.size()),
        second(weights.size()),
        working(weights.size()),
        remainders(weights.size()),
        first_16(weights.size()),
        second_16(weights.size()) {
    const auto n = static_cast<std::int64_t>(weights.size());
    auto* upper = reinterpret_cast<BFloat16*>(working.data());
    auto* lower = reinterpret_cast<std::int16_t*>(remainders.data());
    split(weights.data(), n, upper, lower);
    state.weights_type = master;
    state.working_type = Dtype::bf16;
    state.moment_type = moment;
    if (master == Dtype::f32) state.weights = masters.data();
    if (master == Dtype::i16) state.weights = lower;
    if (master == Dtype::bf16) state.weights = upper;
    if (master != Dtype::bf16) state.working = working.data();
    const bool narrow_moments = moment == Dtype::bf16;
    state.first_moment = narrow_moments ? static_cast<void*>(first_16.data()) : first.data();
    state.second_moment = narrow_moments ? static_cast<void*>(second_16.data()) : second.data();
  }
  std::vector<float> exact() const {
    std::vector<float> values(working.size());
    join(reinterpret_cast<const BFloat16*>(working.data()),
         reinterpret_cast<const std::int16_t*>(remainders.data()), std::ssize(working),
         values.data());
    return values;
  }
};

}  // namespace

TEST_CASE("masters as remainders step as fp32 masters do, to the bit", "[exec][optimizer]") {
  StepSettings training;
  training.optimizer = GENERATE(OptimizerKind::adamw, OptimizerKind::adam, OptimizerKind::sgd,
                                OptimizerKind::lamb, OptimizerKind::lion);
  training.weight_decay = 0.1;
  constexpr std::int64_t n = 9001;
  std::vector<float> begin(n), gradients(n);
  for (std::size_t i = 0; i < n; ++i) begin[i] = float(std::sin(double(i)));
  Kept whole(begin, Dtype::f32, Dtype::f32), parts(begin, Dtype::i16, Dtype::f32);
  ThreadPool pool(2);
  for (int step = 1; step <= 5; ++step) {
    const OptimizerScalars scalars{step, 0.01, 0.5};
    for (std::size_t i = 0; i < n; ++i) gradients[i] = float(std::cos(double(i) * step));
    for (Kept* each : {&whole, &parts}) {
      double norms[2] = {};
      const OptimizerSegment all{0, n, true, norms};
      each->state.gradients = gradients.data();
      if (training.optimizer == OptimizerKind::lamb)
        lamb_norms(training, scalars, {&all, 1}, each->state, pool);
      optimizer_step(training, scalars, {&all, 1}, each->state, pool);
    }
    CHECK(parts.exact() == whole.masters);
    CHECK(parts.working == whole.working);
    CHECK(parts.first == whole.first);
    CHECK(parts.second == whole.second);
  }
  CHECK(whole.masters != begin);
}

// Each element of the moments is what an fp32 step makes of the stored value, rounded.
TEST_CASE("moments in bf16, and weights without masters, are rounded once a step",
          "[exec][optimizer]") {
  StepSettings training;
  training.optimizer = GENERATE(OptimizerKind::adamw, OptimizerKind::adam, OptimizerKind::sgd);
  constexpr std::int64_t n = 9001;
  std::vector<float> begin(n), gradients(n), weights(n), first(n), second(n);
  for (std::size_t i = 0; i < n; ++i) begin[i] = float(std::sin(double(i)));
  Kept narrow_ones(begin, Dtype::bf16, Dtype::bf16);
  narrow(begin.data(), Dtype::bf16, n, narrow_ones.working.data());
  ThreadPool pool(1);
  const OptimizerSegment all{0, n, true};
  std::vector<std::uint16_t> expected(n);
  for (int step = 1; step <= 3; ++step) {
    const OptimizerScalars scalars{step, 0.1, 0.5};
    for (std::size_t i = 0; i < n; ++i) gradients[i] = float(std::cos(double(i) * step));
    widen(narrow_ones.working.data(), Dtype::bf16, n, weights.data());
    widen(narrow_ones.first_16.data(), Dtype::bf16, n, first.data());
    widen(narrow_ones.second_16.data(), Dtype::bf16, n, second.data());
    optimizer_step(training, scalars, {&all, 1},
                   {weights.data(), gradients.data(), first.data(), second.data()}, pool);
    narrow_ones.state.gradients = gradients.data();
    optimizer_step(training, scalars, {&all, 1}, narrow_ones.state, pool);
    narrow(weights.data(), Dtype::bf16, n, expected.data());
    CHECK(narrow_ones.working == expected);
    narrow(first.data(), Dtype::bf16, n, expected.data());
    CHECK(narrow_ones.first_16 == expected);
    if (training.optimizer == OptimizerKind::sgd) continue;
    narrow(second.data(), Dtype::bf16, n, expected.data());
    CHECK(narrow_ones.second_16 == expected);
  }
}

// The average is compared with plain code: a share of its old value, plus the rest of the step's
// new weight.
TEMPLATE_TEST_CASE("the average of the weights follows them, by every optimizer",
                   "[exec][optimizer]", float, double) {
  constexpr std::int64_t n = 9001;
  const bool by_framework = GENERATE(false, true);
  StepSettings training;
  training.optimizer = GENERATE(OptimizerKind::adamw, OptimizerKind::adam, OptimizerKind::sgd,
                                OptimizerKind::lamb, OptimizerKind::lion);
  if (by_framework) training.compiler = CompilerLevel::none;
  training.weight_decay = 0.1;
  training.ema_decay = 0.9;
  std::vector<TestType> weights(n), gradients(n), first(n), second(n);
  for (std::size_t i = 0; i < n; ++i) weights[i] = TestType(std::sin(double(i)));
  std::vector<TestType> average = weights;
  std::vector<float> scratch(std::size_t(2 * n));
  std::vector<double> expected(weights.begin(), weights.end());
  ThreadPool pool(2);
  for (int step = 1; step <= 4; ++step) {
    const OptimizerScalars scalars{step, 0.1, 0.5};
    for (std::size_t i = 0; i < n; ++i) gradients[i] = TestType(std::cos(double(i) * step));
    double norms[2][2] = {};
    const OptimizerSegment segments[] = {{0, 5000, true, norms[0]}, {5001, 4000, false, norms[1]}};
    OptimizerState state = state_of(weights, gradients, first, second);
    state.average = average.data();
    state.scratch = scratch.data();
    state.scratch_elements = std::ssize(scratch);
    if (training.optimizer == OptimizerKind::lamb)
      lamb_norms(training, scalars, segments, state, pool);
    const auto step_by = by_framework ? eager_optimizer_step : optimizer_step;
    step_by(training, scalars, std::span(segments), state, pool);
    for (std::size_t i = 0; i < n; ++i)
      if (i != 5000) expected[i] = 0.9 * expected[i] + 0.1 * double(weights[i]);
  }
  double worst = 0;
  for (std::size_t i = 0; i < n; ++i)
    worst = std::max(worst, std::abs(double(average[i]) - expected[i]));
  // The numbers are below 2. In each step, rounding 0.9 adds an error of 2^-25 (2^-54) of them, and
  // three roundings add 2^-24 (2^-53) of them each.
  const double unit = std::is_same_v<TestType, double> ? 0x1p-53 : 0x1p-24;
  CHECK(worst < 4 * (unit + 3 * 2 * unit));
  CHECK(average[5000] == weights[5000]);
  CHECK(average[0] != weights[0]);
}

TEST_CASE("averages are of the weights before these are rounded", "[exec][optimizer]") {
  constexpr std::int64_t n = 100;
  StepSettings training;
  training.ema_decay = 0.5;
  std::vector<float> begin(n), gradients(n), average(n), whole_average(n);
  for (std::size_t i = 0; i < n; ++i) begin[i] = 1, gradients[i] = float(i) + 1;
  Kept rounded(begin, Dtype::bf16, Dtype::f32), whole(begin, Dtype::f32, Dtype::f32);
  rounded.state.average = average.data();
  whole.state.average = whole_average.data();
  ThreadPool pool(1);
  const OptimizerSegment all{0, n, true};
  for (Kept* each : {&rounded, &whole}) {
    each->state.gradients = gradients.data();
    optimizer_step(training, {1, 0x1p-12, 1}, {&all, 1}, each->state, pool);
  }
  CHECK(average == whole_average);
  CHECK(rounded.working[0] == 0x3f80);  // 1 - 2^-12 is rounded to 1
  CHECK(whole_average[0] == Approx((1 - 0x1p-12) / 2));
}

TEST_CASE("a moving loss scale falls after overflows and grows after good steps",
          "[exec][optimizer]") {
  const LossScale rule{true, 64, 2, 8, 3, 2};  // factor 2, minimum 8, window 3, hysteresis 2
  StepSettings training;
  training.precision = Precision::fp16;
  training.loss_scale = rule;
  LossScaleState state = first_state(training);
  CHECK(state == LossScaleState{64, 0, 2, 0});
  const auto play = [&](const std::string& steps) {
    for (const char step : steps) state = after_step(rule, state, step == 'x');
    return state;
  };
  CHECK(play("x") == LossScaleState{64, 0, 1, 1});  // the first overflow is let pass
  CHECK(play("x") == LossScaleState{32, 0, 1, 2});  // from then on each one counts
  CHECK(play("..") == LossScaleState{32, 2, 1, 2});
  CHECK(play("x") == LossScaleState{16, 0, 1, 3});     // good steps count from the start again
  CHECK(play("...") == LossScaleState{32, 0, 2, 3});   // the window is full: hysteresis is whole
  CHECK(play("xxxxx") == LossScaleState{8, 0, 1, 8});  // 32 (let pass) 16 8 8 8: not below 8
  CHECK(play("......") == LossScaleState{32, 0, 2, 8});
}

TEST_CASE("a static loss scale stays, and other precisions have none", "[exec][optimizer]") {
  StepSettings training;
  training.precision = Precision::fp16;
  CHECK(first_state(training).scale == 4294967296.0);  // 2^32
  training.loss_scale = LossScale{};
  training.loss_scale->initial = 128;
  const LossScaleState state = first_state(training);
  CHECK(after_step(*training.loss_scale, state, false) == state);
  // The scale stops at the largest power of two that has an inverse in fp32.
  const LossScale moving{.dynamic = true, .factor = 4, .window = 1, .hysteresis = 1};
  CHECK(after_step(moving, {0x1p125, 0, 1, 0}, false).scale == 0x1p126);
  CHECK(after_step(moving, {0x1p126, 0, 1, 0}, false).scale == 0x1p126);
  // A resumed run may have a shorter window than the steps that were good before.
  CHECK(after_step({.dynamic = true, .factor = 2, .window = 3, .hysteresis = 1}, {8, 7, 1, 0},
                   false) == LossScaleState{16, 0, 1, 0});
  CHECK(after_step(*training.loss_scale, state, true) == LossScaleState{128, 0, 1, 1});
  training.precision = Precision::bf16;
  CHECK(first_state(training) == LossScaleState{});
}

TEST_CASE("learning rates warm up and fall as their schedules say", "[exec][optimizer]") {
  StepSettings training;
  training.learning_rate = 8;
  training.steps = 9;
  CHECK(learning_rate_at(training, 1) == 8);
  CHECK(learning_rate_at(training, 9) == 8);
  // The warm-up has 4 steps: 8 * step / 4.
  training.warmup_steps = 4;
  CHECK(learning_rate_at(training, 1) == 2);
  CHECK(learning_rate_at(training, 3) == 6);
  CHECK(learning_rate_at(training, 4) == 8);
  // The rate falls from step 4 to 0 at step 10, so step 7 is half-way.
  training.learning_rate_schedule = LearningRateSchedule::linear;
  CHECK(learning_rate_at(training, 4) == 8);
  CHECK(learning_rate_at(training, 7) == 4);
  CHECK(learning_rate_at(training, 9) == Approx(8.0 / 6));
  CHECK(learning_rate_at(training, 50) == 0);
  training.learning_rate_schedule = LearningRateSchedule::cosine;
  CHECK(learning_rate_at(training, 4) == 8);
  CHECK(learning_rate_at(training, 7) == Approx(4));
  CHECK(learning_rate_at(training, 6) == Approx(8 * 0.75));  // (1 + cos(pi/3)) / 2
  // Steps beyond 32 bits work in the same way.
  constexpr std::int64_t far = (std::int64_t{1} << 32) + 2;
  CHECK(learning_rate_at(training, far) == 0);
  // The rate falls from step 9 - 3 on to 0 at step 10.
  training.learning_rate_schedule = LearningRateSchedule::warmup_stable_decay;
  training.decay_steps = 3;
  CHECK(learning_rate_at(training, 2) == 4);
  CHECK(learning_rate_at(training, 6) == 8);
  CHECK(learning_rate_at(training, 7) == 6);
  CHECK(learning_rate_at(training, 9) == 2);
  CHECK(learning_rate_at(training, far) == 0);
  training.decay_steps = 0;  // a tenth of nine steps, rounded up: one step
  CHECK(learning_rate_at(training, 8) == 8);
  CHECK(learning_rate_at(training, 9) == 4);
  training.learning_rate_schedule = LearningRateSchedule::inverse_sqrt;
  CHECK(learning_rate_at(training, 2) == 4);
  CHECK(learning_rate_at(training, 4) == 8);
  CHECK(learning_rate_at(training, 16) == 4);
  CHECK(learning_rate_at(training, 400) == Approx(0.8));
  training.learning_rate_schedule = LearningRateSchedule::constant;
  CHECK(learning_rate_at(training, far) == 8);
  CHECK(learning_rate_at(training, (std::int64_t{1} << 31) + 5) == 8);
}

TEST_CASE("clipping scales the gradient to the wanted norm, and never up", "[exec][optimizer]") {
  CHECK(clip_factor(10, 0) == 1);
  CHECK(clip_factor(0.5, 1) == 1);
  CHECK(clip_factor(4, 1) == 1 / (4 + 1e-6));
}

TEST_CASE("biases of routers move towards equal use, each layer by its own mean",
          "[exec][optimizer]") {
  // The bucket holds an element that is no bias, the biases of experts 2 to 4 of a layer of five,
  // and all biases of a layer of two.
  const std::vector<double> first = {4, 4, 9, 1, 2}, second = {3, 3};  // means 4 and 3
  const ChoiceBias biases[] = {{1, 3, 2, 5, first.data()}, {4, 2, 0, 2, second.data()}};
  const auto moved = [&](const OptimizerState& state) {
    update_choice_biases(0.25, biases, state);
  };
  SECTION("in fp32") {
    std::vector<float> weights = {1, 1, 1, 1, 1, 1};
    moved({weights.data()});
    CHECK(weights == std::vector<float>{1, 0.75F, 1.25F, 1.25F, 1, 1});
  }
  SECTION("masters and their copies") {
    std::vector<float> masters = {1, 1, 1, 1, 1, 1};
    std::vector<BFloat16> copies(6);
    OptimizerState state{masters.data()};
    state.working = copies.data();
    state.working_type = Dtype::bf16;
    moved(state);
    CHECK(masters == std::vector<float>{1, 0.75F, 1.25F, 1.25F, 1, 1});
    CHECK(reference_value(copies[1]) == 0.75F);
    CHECK(reference_value(copies[3]) == 1.25F);
  }
  SECTION("copies and what they lack") {
    const std::vector<float> begin = {1, 1.001F, 1.002F, 1.003F, 1, 1};
    std::vector<BFloat16> copies(6);
    std::vector<std::int16_t> remainders(6);
    split(begin.data(), 6, copies.data(), remainders.data());
    OptimizerState state{remainders.data()};
    state.weights_type = Dtype::i16;
    state.working = copies.data();
    state.working_type = Dtype::bf16;
    moved(state);
    std::vector<float> joined(6);
    join(copies.data(), remainders.data(), 6, joined.data());
    CHECK(joined == std::vector<float>{1, 1.001F - 0.25F, 1.002F + 0.25F, 1.003F + 0.25F, 1, 1});
  }
}
