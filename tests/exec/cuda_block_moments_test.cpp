// Compares AdamW and Adam with moments in blocks of 8 bits, on the emulated device or a GPU, with
// exec/optimizer.
#include <cmath>
#include <vector>

#include "exec/backends/cuda/optimizer/optimizer.h"
#include "exec/core/half.h"
#include "exec/optimizer/remainders.h"
#include "tests/catch.h"
#include "tests/exec/device_array.h"
#include "tests/exec/tested_device.h"

using namespace meshwright::tests;

namespace {

constexpr std::size_t n = 9001;

std::vector<std::byte> no_blocks() {
  return std::vector<std::byte>(static_cast<std::size_t>(bytes_of(std::int64_t{n}, Dtype::block8)));
}

// The host may round a product and a sum together. A value between two codes may then get the other
// code, and a scale may be the next number.
void check_alike(const std::vector<std::byte>& got, const std::vector<std::byte>& expected,
                 Dtype dtype) {
  std::vector<float> a(n), b(n);
  widen(got.data(), dtype, n, a.data());
  widen(expected.data(), dtype, n, b.data());
  int apart = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (std::abs(a[i] - b[i]) <= 1e-6F * std::abs(b[i])) continue;
    ++apart;
    CHECK(std::abs(a[i] - b[i]) <= 0.5F * std::abs(b[i]) + 1e-6F);
  }
  CHECK(apart <= 3);
}

}  // namespace

TEST_CASE("moments in 8 bits have the CPU's codes on the device", "[exec][cuda]") {
  StepSettings training;
  training.optimizer = GENERATE(OptimizerKind::adamw, OptimizerKind::adam);
  training.weight_decay = 0.5;
  training.moments = Dtype::block8;
  training.ema_decay = 0.5;
  const Dtype masters = GENERATE(Dtype::f32, Dtype::i16);
  const std::size_t offset = GENERATE(0, 1);  // offset of all arrays except the moments
  std::vector<float> weights(n), gradients(n);
  for (std::size_t i = 0; i < n; ++i) weights[i] = float(std::sin(double(i)));
  std::vector<float> average = weights;
  std::vector<std::uint16_t> copy(n), lower(n), narrow_gradients(n);
  const auto upper_of = [](std::vector<std::uint16_t>& bits) {
    return reinterpret_cast<BFloat16*>(bits.data());
  };
  const auto lower_of = [](std::vector<std::uint16_t>& bits) {
    return reinterpret_cast<std::int16_t*>(bits.data());
  };
  split(weights.data(), n, upper_of(copy), lower_of(lower));
  const std::vector<OptimizerSegment> segments = {
      {0, 255, true}, {256, 4099, false}, {4608, 0, true}, {4608, n - 4608, true}};
  std::vector<std::byte> first = no_blocks(), second = no_blocks();
  DeviceArray<float> d_weights(weights, offset), d_average(average, offset);
  DeviceArray<std::uint16_t> d_copy(copy, offset), d_lower(lower, offset),
      d_gradients(narrow_gradients, offset);
  DeviceArray<std::byte> d_first(first), d_second(second);
  const auto made = cuda::device_segments(segments);
  const DeviceArray<cuda::DeviceSegment> device_segments(made);
  const auto state_of = [&](auto& w, auto& c, auto& l, auto& g, auto& f, auto& s, auto& a) {
    OptimizerState state;
    state.weights = masters == Dtype::f32 ? static_cast<void*>(w.data()) : l.data();
    state.working = c.data();
    state.gradients = g.data();
    state.first_moment = f.data();
    state.second_moment = s.data();
    state.weights_type = masters;
    state.gradient_type = state.working_type = Dtype::bf16;
    state.moment_type = Dtype::block8;
    state.average = a.data();
    return state;
  };
  ThreadPool pool(1);
  const DeviceArray<double> loss({1.0}), norm({1.0});
  for (int step = 1; step <= 3; ++step) {
    for (std::size_t i = 0; i < n; ++i)
      gradients[i] = float(std::cos(double(i) * step) * std::pow(10, double(i % 7) - 5));
    narrow(gradients.data(), Dtype::bf16, n, narrow_gradients.data());
    d_gradients.set(narrow_gradients);
    // Each step starts from the same numbers on both sides.
    d_weights.set(weights), d_copy.set(copy), d_lower.set(lower), d_average.set(average);
    d_first.set(first), d_second.set(second);
    UpdateScalars before;
    before.learning_rate = 0.125;
    before.step = step - 1;
    const DeviceArray<UpdateScalars> scalars({before});
    cuda::prepare_update(training, loss.data(), norm.data(), scalars.data(), nullptr);
    cuda::optimizer_step(
        training, scalars.data(), cuda::segments_at(device_segments.data(), made),
        state_of(d_weights, d_copy, d_lower, d_gradients, d_first, d_second, d_average), nullptr);
    optimizer_step(training, {step, 0.125, 1}, segments,
                   state_of(weights, copy, lower, narrow_gradients, first, second, average), pool);
    check_alike(d_first.get(), first, Dtype::block8);
    check_alike(d_second.get(), second, Dtype::block8u);
    std::vector<std::uint16_t> got_copy = d_copy.get(), got_lower = d_lower.get();
    std::vector<float> got = d_weights.get(), expected = weights;
    if (masters == Dtype::i16) {
      join(upper_of(got_copy), lower_of(got_lower), n, got.data());
      join(upper_of(copy), lower_of(lower), n, expected.data());
    }
    const std::vector<float> got_average = d_average.get();
    for (std::size_t i = 0; i < n; ++i) {
      CHECK(got[i] == Approx(expected[i]).margin(1e-6));
      CHECK(got_average[i] == Approx(average[i]).margin(1e-6));
    }
    CHECK(got[255] == float(std::sin(255.0)));  // between two segments: not updated
  }
  CHECK(first != no_blocks());
}
