// Compares Adafactor on the emulated device, or on a GPU, with exec/optimizer.
#include <cmath>
#include <vector>

#include "exec/backends/cuda/optimizer/optimizer.h"
#include "exec/core/half.h"
#include "tests/catch.h"
#include "tests/exec/device_array.h"
#include "tests/exec/tested_device.h"

using namespace meshwright::tests;

namespace {

constexpr std::int64_t rows = 45, columns = 70, vector_size = 300;
constexpr std::int64_t matrix_begin = 320, all = matrix_begin + rows * columns / 2;

// A bucket with a vector, and with the later half of each row of a matrix. As in a shard, the last
// elements are missing.
struct FactoredBucket {
  AdafactorParameter matrix, rest;
  std::vector<OptimizerSegment> segments;
  explicit FactoredBucket(float* factors, double* sums, double* norms) {
    rest.elements = vector_size;
    matrix.elements = rows * columns, matrix.rows = rows, matrix.columns = columns;
    matrix.width = columns / 2;
    matrix.places.held = columns / 2, matrix.places.whole = columns;
    matrix.places.shift[0] = columns / 2;
    OptimizerSegment of_rest{0, vector_size, false, norms};
    of_rest.adafactor = &rest;
    OptimizerSegment of_matrix{matrix_begin, rows * columns / 2 - 100, true, norms + 2};
    of_matrix.adafactor = &matrix;
    of_matrix.first = 100;
    of_matrix.factors = factors;
    of_matrix.factor_sums = sums;
    segments = {of_rest, of_matrix};
  }
};

template <typename T>
void check_close(const std::vector<T>& got, const std::vector<T>& expected) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    CHECK(got[i] == Approx(expected[i]).epsilon(1e-5).margin(1e-6));
}

}  // namespace

TEST_CASE("adafactor steps on the device as on the CPU", "[exec][cuda]") {
  StepSettings training;
  training.optimizer = OptimizerKind::adafactor;
  training.weight_decay = 0.1, training.ema_decay = 0.9, training.gradient_clip_value = 0.9;
  training.adafactor.scale_parameter = GENERATE(false, true);
  training.adafactor.relative_step = training.adafactor.scale_parameter;
  const Dtype gradient_type = GENERATE(Dtype::f32, Dtype::bf16);
  const auto n = static_cast<std::size_t>(all);
  std::vector<float> weights(n), second(n), gradients(n), factors(rows + columns);
  std::vector<double> sums(rows + columns), norms(4);
  std::vector<std::uint16_t> narrow_gradients(n), copy(n);
  for (std::size_t i = 0; i < n; ++i) weights[i] = float(std::sin(double(i)));
  std::vector<float> average = weights;
  const DeviceArray<float> d_weights(weights), d_second(second), d_gradients(gradients),
      d_factors(factors), d_average(average);
  DeviceArray<double> d_sums(sums), d_norms(norms);
  DeviceArray<std::uint16_t> d_narrow(narrow_gradients), d_copy(copy);
  DeviceArray<float> moved_gradients(gradients);
  const FactoredBucket on_cpu(factors.data(), sums.data(), norms.data()),
      on_device(d_factors.data(), d_sums.data(), d_norms.data());
  const auto made = cuda::device_segments(on_device.segments);
  const DeviceArray<cuda::DeviceSegment> segments(made);
  const cuda::DeviceSegments of_bucket = cuda::segments_at(segments.data(), made);
  const DeviceArray<double> partial(
      std::vector<double>(static_cast<std::size_t>(cuda::lamb_scratch_bytes(of_bucket) / 8)));
  const auto state_of = [&](auto& w, auto& g, auto& s, auto& c, auto& a) {
    OptimizerState state{w.data(), g.data(), nullptr, s.data()};
    state.gradient_type = gradient_type;
    state.working = c.data();
    state.working_type = Dtype::bf16;
    state.average = a.data();
    return state;
  };
  ThreadPool pool(1);
  const DeviceArray<double> loss({1.0}), norm({1.0});
  for (int number = 1; number <= 3; ++number) {
    for (std::size_t i = 0; i < n; ++i)
      gradients[i] = float(std::cos(double(i) * number) * std::pow(10, double(i % 5) - 4));
    narrow(gradients.data(), Dtype::bf16, all, narrow_gradients.data());
    moved_gradients.set(gradients);
    d_narrow.set(narrow_gradients);
    std::fill(sums.begin(), sums.end(), 0.0);
    std::fill(norms.begin(), norms.end(), 0.0);
    d_sums.set(sums), d_norms.set(norms);
    UpdateScalars before;
    before.learning_rate = 0.8;
    before.step = number - 1;
    const DeviceArray<UpdateScalars> scalars({before});
    const OptimizerScalars of_step{number, 0.8, 1};
    OptimizerState far = state_of(d_weights, moved_gradients, d_second, d_copy, d_average),
                   near = state_of(weights, gradients, second, copy, average);
    if (gradient_type == Dtype::bf16) {
      far.gradients = d_narrow.data();
      near.gradients = narrow_gradients.data();
    }
    cuda::prepare_update(training, loss.data(), norm.data(), scalars.data(), nullptr);
    cuda::adafactor_sums(scalars.data(), made, far, nullptr);
    adafactor_sums(training, of_step, on_cpu.segments, near, pool);
    check_close(d_sums.get(), sums);
    cuda::adafactor_norms(training, scalars.data(), made, of_bucket, far, partial.data(), nullptr);
    adafactor_norms(training, of_step, on_cpu.segments, near, pool);
    check_close(d_factors.get(), factors);
    check_close(d_sums.get(), sums);
    check_close(d_norms.get(), norms);
    check_close(d_second.get(), second);
    cuda::optimizer_step(training, scalars.data(), of_bucket, far, nullptr);
    optimizer_step(training, of_step, on_cpu.segments, near, pool);
    check_close(d_weights.get(), weights);
    check_close(d_average.get(), average);
  }
  CHECK(weights[0] != 0);
  CHECK(weights[vector_size] == float(std::sin(double(vector_size))));  // in no segment
}
