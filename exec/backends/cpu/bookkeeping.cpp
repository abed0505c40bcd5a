// Kernels that clear memory, sum the losses, and sum the squares of a gradient bucket.
#include <algorithm>
#include <array>
#include <cstring>

#include "exec/backends/cpu/tables.h"

namespace meshwright::exec::cpu {

template <typename T>
void zero(const KernelCall& k) {
  constexpr std::int64_t bytes_per_piece = 1 << 20;
  for (std::size_t i = 0; i < k.call.outputs.size(); ++i) {
    std::byte* to = k.out<std::byte>(i);
    parallel_for(
        k.pool, k.call.outputs[i].bytes(), bytes_per_piece,
        [=](std::int64_t begin, std::int64_t end) { std::memset(to + begin, 0, end - begin); });
  }
}

template <typename T>
void sum_loss(const KernelCall& k) {
  const T* loss = k.in<T>(0);
  double sum = 0;
  for (std::int64_t i = 0; i < k.in_shape(0).elements(); ++i) sum += static_cast<double>(loss[i]);
  *k.out<double>(0) += sum;
}

namespace {

// Returns the sum of the squares in fp64. This is a function because g++ does not vectorise a
// reduction inside a lambda well.
template <typename T>
double squares(const T* x, std::int64_t count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i)
    sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

}  // namespace

template <typename T>
void sum_of_squares(const KernelCall& k) {
  constexpr std::int64_t pieces = 256;
  const std::int64_t count = k.in_shape(0).elements();
  const std::int64_t grain = std::max(elements_per_piece, (count + pieces - 1) / pieces);
  const T* x = k.in<T>(0);
  std::array<double, pieces> partial{};
  double* partials = partial.data();
  parallel_for(k.pool, count, grain, [=](std::int64_t begin, std::int64_t end) {
    partials[begin / grain] = squares(x + begin, end - begin);
  });
  double sum = 0;
  for (const double part : partial) sum += part;
  *k.out<double>(0) += sum;
}

constexpr Row rows[] = {
    {Op::zero, zero<float>, zero<double>, zero<float>},  // looks at bytes only
    MESHWRIGHT_CPU_ROW(sum_loss),
    MESHWRIGHT_CPU_ROW(sum_of_squares),
};

std::span<const Row> bookkeeping_rows() { return rows; }

}  // namespace meshwright::exec::cpu
