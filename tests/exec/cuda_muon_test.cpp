// Compares muon on the emulated device with exec/optimizer and the CPU backend.
#include <cmath>

#include "exec/backends/cpu/orthogonal.h"
#include "exec/backends/cuda/optimizer/optimizer.h"
#include "exec/backends/cuda/optimizer/orthogonal.h"
#include "exec/core/half.h"
#include "tests/catch.h"
#include "tests/exec/device_array.h"
#include "tests/exec/muon_cases.h"
#include "tests/test_folder.h"

using namespace meshwright::tests;

namespace {

struct DeviceProducts {
  TestFolder folder;
  cuda::KernelCache cache{folder.path(), 1 << 20};
  DeviceArray<char> workspace{std::vector<char>(1 << 20)};
  cuda::Products products{{}, workspace.data(), 1 << 20, cache};
};

void check_near(const std::vector<float>& found, const std::vector<float>& expected) {
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    worst = std::max(worst, std::abs(double(found[i]) - expected[i]));
  CHECK(worst < 2e-4);  // rounding errors grow up to 3.4^5 times
}

}  // namespace

TEST_CASE("a device makes matrices orthogonal as a CPU does", "[exec][cuda]") {
  DeviceProducts device;
  ThreadPool pool(1);
  std::vector<WholeMatrix> matrices = cut_matrices(12, 24);
  matrices.push_back({2, 10, 7});
  matrices.push_back({1, 5, 40});
  for (WholeMatrix& matrix : matrices) {
    matrix.part = matrix.parts - 1;
    const std::int64_t own_size = matrix.count * matrix.rows * matrix.columns / matrix.parts;
    const std::int64_t distance = own_size + 3;
    const std::vector<float> parts = some_numbers(std::size_t(distance * matrix.parts));
    std::vector<float> expected(static_cast<std::size_t>(own_size));
    std::vector<float> scratch(static_cast<std::size_t>(scratch_of(matrix)));
    cpu::orthogonalize(pool, matrix, parts.data(), distance, expected.data(), scratch.data());
    const DeviceArray<float> d_parts(parts), d_own(std::vector<float>(expected.size(), NAN)),
        d_scratch(scratch);
    const DeviceArray<double> partial(std::vector<double>(cuda::norm_parts));
    cuda::orthogonalize(device.products, matrix, d_parts.data(), distance, d_own.data(),
                        d_scratch.data(), partial.data(), nullptr);
    check_near(d_own.get(), expected);
  }
}

TEST_CASE("muon's momentum and step on a device have the CPU's bits where products are exact",
          "[exec][cuda]") {
  StepSettings training;
  training.optimizer = OptimizerKind::muon;
  training.momentum = 0.5;
  training.learning_rate = 0x1p-7;
  training.gradient_clip_value = GENERATE(0, 1);
  const WholeMatrix matrix{1, 25, 36};
  const Dtype gradient_type = GENERATE(Dtype::f32, Dtype::bf16);
  OptimizerSegment segment{5, 900, true};
  segment.matrix = &matrix;
  const std::size_t count = 910;
  std::vector<float> weights(count), gradients(count), first(count, 0.25F), update(count, 3);
  for (std::size_t i = 0; i < count; ++i) {
    weights[i] = float(i % 16) / 16;
    gradients[i] = float(1 + i % 13) * (i % 3 == 0 ? -0.125F : 0.125F);
  }
  std::vector<std::uint16_t> narrow_gradients(count);
  narrow(gradients.data(), Dtype::bf16, std::ssize(gradients), narrow_gradients.data());
  const DeviceArray<float> d_weights(weights), d_gradients(gradients), d_first(first),
      d_update(update);
  const DeviceArray<std::uint16_t> d_narrow(narrow_gradients);
  const std::vector<cuda::DeviceSegment> made = cuda::device_segments({&segment, 1});
  const DeviceArray<cuda::DeviceSegment> copy(made);
  const cuda::DeviceSegments segments = cuda::segments_at(copy.data(), made);
  const DeviceArray<UpdateScalars> scalars({UpdateScalars{}});
  UpdateScalars begin;
  begin.learning_rate = training.learning_rate;
  DeviceArray<UpdateScalars> of_update({begin});
  const DeviceArray<double> loss({1.0}), norm({1.0});
  cuda::prepare_update(training, loss.data(), norm.data(), of_update.data(), nullptr);
  OptimizerState on_device{d_weights.data(), d_gradients.data(), d_first.data()};
  OptimizerState on_cpu{weights.data(), gradients.data(), first.data()};
  on_device.gradient_type = on_cpu.gradient_type = gradient_type;
  if (gradient_type == Dtype::bf16) {
    on_device.gradients = d_narrow.data();
    on_cpu.gradients = narrow_gradients.data();
  }
  on_device.update = d_update.data();
  on_cpu.update = update.data();
  ThreadPool pool(1);
  const OptimizerScalars of_step{1, training.learning_rate, 1};
  cuda::muon_momentum(of_update.data(), segments, on_device, nullptr);
  muon_momentum(training, of_step, {&segment, 1}, on_cpu, pool);
  CHECK(d_first.get() == first);
  CHECK(d_update.get() == update);
  CHECK(update[3] == 3);
  CHECK(update[9] != 3);
  cuda::optimizer_step(training, of_update.data(), segments, on_device, nullptr);
  optimizer_step(training, of_step, {&segment, 1}, on_cpu, pool);
  const std::vector<float> found = d_weights.get();
  for (std::size_t i = 0; i < count; ++i)  // the scale, 0.2 * 6, is not exact
    REQUIRE(found[i] == Approx(weights[i]).margin(1e-7));
  CHECK(found[4] == weights[4]);
  CHECK(d_first.get() == first);
}
