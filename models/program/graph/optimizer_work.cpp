#include <algorithm>

#include "models/program/graph/op_table.h"
#include "models/program/graph/ops/kernels.h"

namespace meshwright::program {

namespace {

// Appends the kernels of torch.optim over fp32 arrays (exec/optimizer/eager_optimizer.cpp), by the
// bytes that they move for each element. `working` is the bytes of a 16-bit weight that is copied
// from its master, or 0.
void eager_optimizer_kernels(KernelList& kernels, const OptimizerWork& work, double working) {
  const double n = static_cast<double>(work.elements);
  const double g = static_cast<double>(bytes_of(work.gradients));
  const auto pass = [&](double bytes_of_element) { memory_kernel(kernels, n * bytes_of_element); };
  if (work.moments == 1) {
    for (const double each : {8.0, 8 + g, 12.0, 12.0}) pass(each);  // momentum, g, decay, update
  } else {
    pass(8);                                                   // decay
    for (const double each : {8 + g, 8.0, 8 + g}) pass(each);  // the moments: one, then two kernels
    for (int i = 0; i < 3; ++i) pass(8);  // the denominator: root, correction, epsilon
    pass(16);                             // the update
  }
  if (working > 0) pass(4 + working);
  if (work.average) pass(12);
}

}  // namespace

// Appends one kernel that reads the gradient, reads and writes the moments, the master and the
// average, and writes the weight, which it also reads unless there is an fp32 master. If the
// moments are ready, it only reads them, and it reads the gradient only if `reads_gradients`. If
// they are not ready, an eager framework whose moments and masters (or weights, without masters)
// are fp32 has several kernels.
void append_optimizer_kernels(const OptimizerWork& work, CompilerLevel level, KernelList& kernels) {
  const double n = static_cast<double>(work.elements);
  const double weight = static_cast<double>(bytes_of(work.weights));
  const bool is_in_fp32 =
      work.moment == Dtype::f32 && (work.master ? *work.master : work.weights) == Dtype::f32;
  if (level == CompilerLevel::none && !work.moments_are_ready && is_in_fp32)
    return eager_optimizer_kernels(kernels, work, work.master ? weight : 0);
  const double moments = mean_bytes_of(work.moment) * work.moments;
  const double gradients = static_cast<double>(bytes_of(work.gradients));
  const double states = !work.moments_are_ready ? 2 * moments + gradients
                        : work.reads_gradients  ? moments + gradients
                                                : moments;
  const double master = work.master ? static_cast<double>(bytes_of(*work.master)) : 0;
  const double weights = work.master == Dtype::f32 ? weight : 2 * weight;
  const double average =
      work.average ? 2 * static_cast<double>(std::max(bytes_of(Dtype::f32), bytes_of(work.weights)))
                   : 0;
  memory_kernel(kernels, n * (states + 2 * master + weights + average));
}

}  // namespace meshwright::program
