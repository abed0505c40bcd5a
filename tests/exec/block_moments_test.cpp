// Tests optimizers whose moments are kept in blocks of 8 bits.
#include <cmath>
#include <vector>

#include "exec/core/half.h"
#include "exec/optimizer/optimizer.h"
#include "tests/catch.h"

using namespace meshwright::tests;

namespace {

constexpr std::int64_t n = 9001;

struct Moments {
  std::vector<std::byte> first =
      std::vector<std::byte>(static_cast<std::size_t>(bytes_of(n, Dtype::block8)));
  std::vector<std::byte> second = first;
  bool operator==(const Moments&) const = default;
};

std::vector<float> gradients_of(int step) {
  std::vector<float> gradients(n);
  for (std::size_t i = 0; i < gradients.size(); ++i)
    gradients[i] = static_cast<float>(std::cos(double(i) * step) * std::pow(10, double(i % 7) - 5));
  return gradients;
}

StepSettings settings() {
  StepSettings training;
  training.optimizer = GENERATE(OptimizerKind::adamw, OptimizerKind::adam);
  training.weight_decay = 0.1;
  training.moments = Dtype::block8;
  return training;
}

std::vector<float> sines() {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = float(std::sin(double(i)));
  return values;
}

}  // namespace

// Moments are updated in fp32 from what is kept, as an fp32 step would do, and then rounded.
TEST_CASE("moments in 8 bits are rounded once a step", "[exec][optimizer]") {
  const StepSettings training = settings();
  std::vector<float> weights = sines(), expected = weights, first(n), second(n);
  Moments kept, rounded;
  ThreadPool pool(2);
  // Two parameters, of which the second begins with a block.
  const OptimizerSegment segments[] = {{0, 1000, true}, {1024, n - 1024, false}};
  for (int step = 1; step <= 4; ++step) {
    const std::vector<float> gradients = gradients_of(step);
    const OptimizerScalars scalars{step, 0.01, 0.5};
    OptimizerState in_blocks{weights.data(), gradients.data(), kept.first.data(),
                             kept.second.data()};
    in_blocks.moment_type = Dtype::block8;
    optimizer_step(training, scalars, segments, in_blocks, pool);
    widen(rounded.first.data(), Dtype::block8, n, first.data());
    widen(rounded.second.data(), Dtype::block8u, n, second.data());
    optimizer_step(training, scalars, segments,
                   {expected.data(), gradients.data(), first.data(), second.data()}, pool);
    narrow(first.data(), Dtype::block8, n, rounded.first.data());
    narrow(second.data(), Dtype::block8u, n, rounded.second.data());
    CHECK(weights == expected);
    CHECK(kept == rounded);
  }
  CHECK(weights[0] != sines()[0]);
  CHECK(weights[1010] == sines()[1010]);  // between two segments: not updated
}

// Updates the parts separately, like ranks that hold a part each.
TEST_CASE("parts that are whole blocks are stepped as the whole", "[exec][optimizer]") {
  const StepSettings training = settings();
  std::vector<float> weights = sines(), in_parts = weights;
  Moments whole, parts;
  ThreadPool pool(1);
  for (int step = 1; step <= 3; ++step) {
    const std::vector<float> gradients = gradients_of(step);
    const OptimizerScalars scalars{step, 0.01, 1};
    const auto take = [&](std::int64_t begin, std::int64_t count, std::vector<float>& of,
                          Moments& moments) {
      const auto at = bytes_of(begin, Dtype::block8);
      OptimizerState state{of.data() + begin, gradients.data() + begin, moments.first.data() + at,
                           moments.second.data() + at};
      state.moment_type = Dtype::block8;
      const OptimizerSegment all{0, count, true};
      optimizer_step(training, scalars, {&all, 1}, state, pool);
    };
    take(0, n, weights, whole);
    take(0, 1024, in_parts, parts);
    take(1024, 256, in_parts, parts);
    take(1280, n - 1280, in_parts, parts);
    CHECK(in_parts == weights);
    CHECK(parts == whole);
  }
}

// The mean of squares near 1e-4 falls by 1/1000 a step, which is less than a code. bf16 rounded to
// nearest would never move. Blocks of 8 bits do not move either, until another element is the
// largest.
TEST_CASE("a small quadratic is solved with moments in 8 bits", "[exec][optimizer]") {
  const StepSettings training = settings();
  std::vector<float> weights(512), gradients(512);
  for (std::size_t i = 0; i < 512; ++i) weights[i] = float(std::sin(double(i)));
  Moments moments;
  ThreadPool pool(1);
  for (int step = 1; step <= 400; ++step) {
    for (std::size_t i = 0; i < 512; ++i) gradients[i] = weights[i] * float(1 + i % 10);
    OptimizerState state{weights.data(), gradients.data(), moments.first.data(),
                         moments.second.data()};
    state.moment_type = Dtype::block8;
    const OptimizerSegment all{0, 512, true};
    optimizer_step(training, {step, 0.01, 1}, {&all, 1}, state, pool);
  }
  for (const float weight : weights) CHECK(std::abs(weight) < 0.02);
}
