// Prints how long each kernel of the jobs scenarios/gpu-*.json should take on an H100, by a model
// of what the CUDA backend launches (launch_model.h). It is not a test.
#include <cstdio>

#include "tests/exec/launch_model.h"
#include "tests/exec/one_gpu_step.h"

using namespace meshwright::tests;

int main() {
  const DeviceModel device;
  for (const OneGpuJob& job : one_gpu_jobs) {
    const std::vector<KernelRow> rows = model_launches(program_of(job), device);
    double step_s = 0;
    for (const KernelRow& row : rows) step_s += row.modelled_s;
    std::printf("%s: %.1f ms modelled\n\n", job.file, 1e3 * step_s);
    std::printf("| kernel | launches | ms | share | blocks | at once | waves | GB | TFLOP |\n");
    std::printf("|---|---|---|---|---|---|---|---|---|\n");
    for (const KernelRow& row : rows)
      std::printf("| %s | %d | %.2f | %.2f | %lld | %lld | %.2f | %.2f | %.2f |\n",
                  row.name.c_str(), row.launches, 1e3 * row.modelled_s, row.share(),
                  static_cast<long long>(row.waves.blocks),
                  static_cast<long long>(row.waves.at_once), row.waves.waves, row.bytes / 1e9,
                  row.flops / 1e12);
    std::printf("\n");
  }
  return 0;
}
