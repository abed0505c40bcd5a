// Operations on the rows of experts, except their matmuls.
#include "exec/backends/cpu/map.h"
#include "exec/backends/cpu/math.h"
#include "exec/backends/cpu/tables.h"
#include "models/program/graph/experts.h"

namespace meshwright::exec::cpu {

template <typename T>
void gate_rows(const KernelCall& k) {
  const std::int64_t rows = k.in_shape(0)[0], h = k.in_shape(0)[1];
  const T* x = k.in<T>(0);
  const T* gates = k.in<T>(1);
  T* y = k.out<T>(0);
  for_each_row(k, rows, h, [=](std::int64_t r) {
    const T factor = sigmoid(gates[r]);
#pragma omp simd
    for (std::int64_t c = r * h; c < (r + 1) * h; ++c) y[c] = factor * x[c];
  });
}

template <typename T>
void gate_rows_grad(const KernelCall& k) {
  const std::int64_t rows = k.in_shape(0)[0], h = k.in_shape(0)[1];
  const T* x = k.in<T>(0);
  const T* gates = k.in<T>(1);
  const T* dy = k.in<T>(2);
  T* dx = k.out<T>(0);
  T* dgates = k.out<T>(1);
  for_each_row(k, rows, h, [=](std::int64_t r) {
    const T factor = sigmoid(gates[r]);
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t c = r * h; c < (r + 1) * h; ++c) {
      sum += x[c] * dy[c];
      dx[c] = factor * dy[c];
    }
    dgates[r] = sum * factor * (T(1) - factor);
  });
}

namespace {

// A group's rows among all rows: [begin, begin + count).
struct RowGroup {
  std::int64_t begin, count;
};

// Returns the rows of each expert. If routing is dropless, operand `counts_at` has their numbers.
// Otherwise all experts have equally many rows.
std::vector<RowGroup> groups_of(const KernelCall& k, std::int64_t all_rows, std::size_t counts_at) {
  const Attributes& a = k.attributes();
  std::vector<RowGroup> groups;
  if (!is_dropless(a)) {
    for (std::int64_t g = 0; g < a.experts; ++g)
      groups.push_back({g * (all_rows / a.experts), all_rows / a.experts});
    return groups;
  }
  const ExpertRows rows(a, k.in<std::int32_t>(counts_at));
  for (std::size_t g = 0; g < static_cast<std::size_t>(a.experts); ++g)
    groups.push_back({rows.begin[g], rows.count[g]});
  return groups;
}

}  // namespace

template <typename T>
void add_expert_bias(const KernelCall& k) {
  const std::int64_t rows = k.in_shape(0)[0], h = k.in_shape(0)[1], experts = k.in_shape(1)[0];
  const T* x = k.in<T>(0);
  const T* bias = k.in<T>(1);
  T* y = k.out<T>(0);
  const T share = T{1} / static_cast<T>(k.attributes().tensor_degree);
  const std::vector<RowGroup> groups = groups_of(k, rows, 2);
  if (is_dropless(k.attributes())) std::copy_n(x, rows * h, y);  // rows of no group
  parallel_for(k.pool, std::ssize(groups), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t g = begin; g < end; ++g) {
      const auto [first, count] = groups[g];
      const T* own = bias + g % experts * h;
      for (std::int64_t r = first; r < first + count; ++r)
#pragma omp simd
        for (std::int64_t c = 0; c < h; ++c) y[r * h + c] = x[r * h + c] + share * own[c];
    }
  });
}

template <typename T>
void expert_bias_grad(const KernelCall& k) {
  const std::int64_t rows = k.in_shape(0)[0], h = k.in_shape(0)[1], experts = k.out_shape(0)[0];
  const T* dy = k.in<T>(0);
  T* sums = k.out<T>(0);
  const std::vector<RowGroup> groups = groups_of(k, rows, 1);
  parallel_for(k.pool, experts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t e = begin; e < end; ++e)
      for (std::int64_t g = e; g < std::ssize(groups); g += experts) {
        const auto [first, count] = groups[g];
        for (std::int64_t r = first; r < first + count; ++r)
#pragma omp simd
          for (std::int64_t c = 0; c < h; ++c) sums[e * h + c] += dy[r * h + c];
      }
  });
}

constexpr Row rows[] = {
    MESHWRIGHT_CPU_ROW(gate_rows),
    MESHWRIGHT_CPU_ROW(gate_rows_grad),
    MESHWRIGHT_CPU_ROW(add_expert_bias),
    MESHWRIGHT_CPU_ROW(expert_bias_grad),
};

std::span<const Row> expert_rows_rows() { return rows; }

}  // namespace meshwright::exec::cpu
