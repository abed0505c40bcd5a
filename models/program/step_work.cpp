#include "models/program/step_work.h"

#include <algorithm>

namespace meshwright::program {

namespace {

constexpr int newton_schulz_steps = 5;

void append_memory(std::vector<Kernel>& kernels, double bytes) {
  kernels.push_back({.bytes = bytes});
}

void append_product(std::vector<Kernel>& kernels, std::int64_t m, std::int64_t n, std::int64_t k) {
  const auto size = [](std::int64_t rows, std::int64_t columns) {
    return 4.0 * static_cast<double>(rows) * static_cast<double>(columns);
  };
  kernels.push_back(
      {.kind = Kernel::Kind::gemm,
       .m = m,
       .n = n,
       .k = k,
       .flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k),
       .bytes = size(m, k) + size(k, n) + size(m, n)});
}

// Appends the fp32 kernels by which muon makes the update of one matrix orthogonal: it is copied,
// from the parts of all ranks if a tensor group shares the matrix, its norm is computed, it is
// scaled, Newton-Schulz steps follow, and the result is written back.
void append_orthogonal(std::vector<Kernel>& kernels, std::int64_t rows, std::int64_t columns) {
  const std::int64_t m = std::min(rows, columns), n = std::max(rows, columns);
  const double whole = 4.0 * static_cast<double>(m) * static_cast<double>(n);
  const double square = 4.0 * static_cast<double>(m) * static_cast<double>(m);
  append_memory(kernels, 2 * whole);
  append_memory(kernels, whole);
  append_memory(kernels, 2 * whole);
  for (int step = 0; step < newton_schulz_steps; ++step) {
    append_product(kernels, m, m, n);
    append_product(kernels, m, m, m);
    append_memory(kernels, 3 * square);
    append_product(kernels, m, n, m);
    append_memory(kernels, 3 * whole);
  }
  append_memory(kernels, 2 * whole);
}

}  // namespace

void append_step_kernels(const Program& program, const Instruction& step,
                         std::vector<Kernel>& kernels) {
  const Bucket& bucket = program.buckets[step.bucket];
  const std::int64_t elements =
      step.piece < 0 ? bucket.shard_elements : bucket.pieces[step.piece].count;
  const StepSettings& training = program.settings->training;
  const bool is_adafactor = training.optimizer == OptimizerKind::adafactor;
  OptimizerWork work{elements,
                     (bucket.first_moment.buffer >= 0 || !is_adafactor ? 1 : 0) +
                         (bucket.second_moment.buffer >= 0 ? 1 : 0),
                     bucket.weights.type.dtype,
                     bucket.gradients.type.dtype,
                     training.master_type(),
                     training.moments,
                     measures_parameters(training.optimizer),
                     bucket.average.buffer >= 0,
                     is_adafactor};
  if (bucket.matrices) {
    const bool gathered = bucket.updates.buffer != bucket.update.buffer;
    for (const int index : bucket.parameters) {
      const Parameter& parameter = program.parameters[index].parameter;
      const Shape& shape = gathered ? parameter.padded_shape : parameter.shape;
      const std::int64_t matrices = shape.elements() / (shape[-2] * shape[-1]);
      for (std::int64_t i = 0; i < matrices; ++i) append_orthogonal(kernels, shape[-2], shape[-1]);
    }
    // The kernel that then updates the weights reads muon's update in place of moments.
    work.moments = 1;
    work.moment = Dtype::f32;
    work.moments_are_ready = true;
  }
  append_optimizer_kernels(work, training.compiler, kernels);
}

}  // namespace meshwright::program
