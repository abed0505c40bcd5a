// Cross-entropy as an eager framework computes it: first the logarithms of all probabilities, then
// the loss from those of the targets.
#include <algorithm>
#include <cmath>

#include "exec/backends/cpu/map.h"
#include "exec/backends/cpu/reduce.h"
#include "exec/backends/cpu/tables.h"
#include "models/core/error.h"

namespace meshwright::exec::cpu {

namespace {

// Returns how many columns of the logits are words. The other columns are padding.
std::int64_t words(const KernelCall& k) {
  const std::int64_t width = k.in_shape(0)[1], vocabulary = k.attributes().vocabulary;
  return vocabulary > 0 ? std::min(vocabulary, width) : width;
}

}  // namespace

template <typename T>
void log_softmax(const KernelCall& k) {
  const std::int64_t rows = k.in_shape(0)[0], width = k.in_shape(0)[1], visible = words(k);
  const T* x = k.in<T>(0);
  T* y = k.out<T>(0);
  for_each_row(k, rows, width, [=](std::int64_t r) {
    const T* in = x + r * width;
    T* out = y + r * width;
    const T maximum = maximum_of(in, visible);
    const T log_sum = maximum + std::log(sum_of_exp(in, visible, maximum));
#pragma omp simd
    for (std::int64_t c = 0; c < visible; ++c) out[c] = in[c] - log_sum;
    std::fill(out + visible, out + width, T(0));
  });
}

// Computes dx = dy - softmax * sum(dy) for each row. Padding columns get exactly 0.
template <typename T>
void log_softmax_grad(const KernelCall& k) {
  const std::int64_t rows = k.in_shape(0)[0], width = k.in_shape(0)[1], visible = words(k);
  const T* y = k.in<T>(0);
  const T* dy = k.in<T>(1);
  T* dx = k.out<T>(0);
  for_each_row(k, rows, width, [=](std::int64_t r) {
    const T* logs = y + r * width;
    const T* d = dy + r * width;
    T* out = dx + r * width;
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t c = 0; c < visible; ++c) sum += d[c];
#pragma omp simd
    for (std::int64_t c = 0; c < visible; ++c) out[c] = d[c] - exp_of(logs[c]) * sum;
    std::fill(out + visible, out + width, T(0));
  });
}

template <typename T>
void nll_loss(const KernelCall& k) {
  const std::int64_t rows = k.in_shape(0)[0], width = k.in_shape(0)[1], visible = words(k);
  const T* logs = k.in<T>(0);
  const std::int32_t* targets = k.in<std::int32_t>(1);
  T* loss = k.out<T>(0);
  for (std::int64_t r = 0; r < rows; ++r) {
    if (targets[r] == ignored_target) {
      loss[r] = 0;
      continue;
    }
    MESHWRIGHT_CHECK(targets[r] >= 0 && targets[r] < visible, "a target is in the vocabulary");
    loss[r] = -logs[r * width + targets[r]];
  }
}

template <typename T>
void nll_loss_grad(const KernelCall& k) {
  const std::int64_t rows = k.in_shape(0)[0], width = k.in_shape(0)[1];
  const std::int32_t* targets = k.in<std::int32_t>(1);
  T scale = static_cast<T>(k.attributes().scale);
  if (k.call.inputs.size() > 2) scale *= static_cast<T>(k.in<float>(2)[0]);
  T* d = k.out<T>(0);
  for_each_row(k, rows, width, [=](std::int64_t r) {
    std::fill_n(d + r * width, width, T(0));
    if (targets[r] != ignored_target) d[r * width + targets[r]] = -scale;
  });
}

constexpr Row rows[] = {
    MESHWRIGHT_CPU_ROW(log_softmax),
    MESHWRIGHT_CPU_ROW(log_softmax_grad),
    MESHWRIGHT_CPU_ROW(nll_loss),
    MESHWRIGHT_CPU_ROW(nll_loss_grad),
};

std::span<const Row> eager_loss_rows() { return rows; }

}  // namespace meshwright::exec::cpu
