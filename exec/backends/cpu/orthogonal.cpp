#include "exec/backends/cpu/orthogonal.h"

#include <algorithm>
#include <cmath>

#include "exec/backends/cpu/gemm.h"

namespace meshwright::exec::cpu {

namespace {

// Calls visit(first index in the whole matrix, first index in the part, count) for each run of
// neighbouring elements that rank `part` holds of the matrix.
template <typename Visit>
void for_each_run(const WholeMatrix& m, int part, const Visit& visit) {
  if (m.cut_dim < 0) return visit(0, 0, m.rows * m.columns);
  std::int64_t begin = 0;  // first index of the segment
  for (const std::int64_t segment : m.segments) {
    const std::int64_t own = segment / m.parts, first = begin + part * own;
    const std::int64_t local = begin / m.parts, width = m.columns / m.parts;
    if (m.cut_dim == 0)
      visit(first * m.columns, local * m.columns, own * m.columns);
    else
      for (std::int64_t row = 0; row < m.rows; ++row)
        visit(row * m.columns + first, row * width + local, own);
    begin += segment;
  }
}

// Makes x[m,n], where m <= n, about orthogonal by Newton-Schulz steps. The result is in x.
// next[m,n], a[m,m] and b[m,m] are scratch memory.
void newton_schulz(ThreadPool& pool, std::int64_t m, std::int64_t n, float* x, float* next,
                   float* a, float* b) {
  double squares = 0;
  for (std::int64_t i = 0; i < m * n; ++i) squares += static_cast<double>(x[i]) * x[i];
  const float scale = 1 / (static_cast<float>(std::sqrt(squares)) + muon_epsilon);
  for (std::int64_t i = 0; i < m * n; ++i) x[i] *= scale;
  for (int step = 0; step < muon_steps; ++step) {
    multiply(pool, Product<float>{m, m, n, {x, n}, {x, n, true}, a, m});
    std::copy_n(a, m * m, b);
    multiply(pool, Product<float>{m, m, m, {a, m}, {a, m}, b, m, muon_c, muon_b});
    std::copy_n(x, m * n, next);
    multiply(pool, Product<float>{m, n, m, {b, m}, {x, n}, next, n, 1, muon_a});
    std::swap(x, next);
  }
  if (muon_steps % 2 == 1) std::copy_n(x, m * n, next);
}

void transpose(std::int64_t rows, std::int64_t columns, const float* from, float* to) {
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) to[c * rows + r] = from[r * columns + c];
}

}  // namespace

void orthogonalize(ThreadPool& pool, const WholeMatrix& matrix, const float* parts,
                   std::int64_t distance, float* own, float* scratch) {
  const std::int64_t size = matrix.rows * matrix.columns;
  const std::int64_t of_part = matrix.cut_dim < 0 ? size : size / matrix.parts;
  const bool turns = matrix.rows > matrix.columns;
  const std::int64_t m = std::min(matrix.rows, matrix.columns), n = size / m;
  float *x = scratch, *other = x + size, *a = other + size, *b = a + m * m;
  for (std::int64_t i = 0; i < matrix.count; ++i) {
    for (int part = 0; part < matrix.parts; ++part) {
      const float* from = parts + part * distance + i * of_part;
      for_each_run(matrix, part, [&](std::int64_t whole, std::int64_t local, std::int64_t count) {
        std::copy_n(from + local, count, (turns ? other : x) + whole);
      });
    }
    if (turns) transpose(matrix.rows, matrix.columns, other, x);
    newton_schulz(pool, m, n, x, other, a, b);
    if (turns) {
      transpose(m, n, x, other);
      std::swap(x, other);
    }
    for_each_run(matrix, matrix.part,
                 [&](std::int64_t whole, std::int64_t local, std::int64_t count) {
                   std::copy_n(x + whole, count, own + i * of_part + local);
                 });
    if (turns) std::swap(x, other);
  }
}

}  // namespace meshwright::exec::cpu
