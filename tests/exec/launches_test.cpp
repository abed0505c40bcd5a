// Tests that the kernels which the CUDA backend launches in a training step fill an H100.
#include "tests/catch.h"
#include "tests/exec/launch_model.h"
#include "tests/exec/one_gpu_step.h"

using namespace meshwright::tests;

namespace {

// Least shares of the roofline on paper. A kernel that fills the device reaches 0.8 of the memory
// bandwidth (DeviceModel), and a last wave that is half empty may cost an eighth of that. Matmuls
// and attention have measured rates, so their shares show which of them are too small for these
// rates.
constexpr double least_share = 0.7, least_share_of_products = 0.55, least_share_of_attention = 0.2;
// Kernels are checked if all their launches take at least this share of the step. The time of
// shorter ones is limited by their launch.
constexpr double worth_it = 0.005;

double floor_of(const KernelRow& row) {
  if (row.name.starts_with("attention")) return least_share_of_attention;
  return row.name == "products" ? least_share_of_products : least_share;
}

}  // namespace

TEST_CASE("kernels of a step fill the device", "[exec][cuda][launches]") {
  const DeviceModel device;
  for (const OneGpuJob& job : one_gpu_jobs) {
    INFO(job.file);
    const std::vector<KernelRow> rows = model_launches(program_of(job), device);
    double step_s = 0;
    for (const KernelRow& row : rows) step_s += row.modelled_s;
    CHECK(step_s < job.ceiling_s);
    for (const KernelRow& row : rows) {
      if (row.modelled_s < worth_it * step_s) continue;
      INFO(row.name << ": " << row.waves.blocks << " blocks, " << row.waves.at_once << " at once");
      CHECK(row.share() > floor_of(row));
    }
  }
}

TEST_CASE("few blocks that move much are slow in the model", "[exec][cuda][launches]") {
  const DeviceModel device;
  emulated::Asked kernel{.blocks = {6, 1, 1}, .threads = {128, 1, 1}};
  constexpr double bytes = 4096 * 768 * 4;
  const double ideal = bytes / device.bytes_per_s;
  CHECK(ideal / memory_seconds(device, kernel, bytes) < 0.02);
  kernel.blocks.x = 132 * 16;
  CHECK(ideal / memory_seconds(device, kernel, bytes) == Approx(device.memory_share));
  // A wave and a tenth of the next one, which is too few to keep the memory busy.
  kernel.threads.x = 1024;
  kernel.blocks.x = 132 * 2 + 13;
  const double share = ideal / memory_seconds(device, kernel, bytes);
  CHECK(share < 0.95 * device.memory_share);
  CHECK(share > 0.5 * device.memory_share);
  CHECK(waves_of(device, kernel).waves == Approx(277.0 / 264));
}
