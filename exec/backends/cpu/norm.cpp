// LayerNorm and RMSNorm, over rows or over each head of a row. The forward pass saves the
// statistics of each row: mean and 1/std, or 1/rms.
#include <cmath>
#include <utility>
#include <vector>

#include "exec/backends/cpu/column_sum.h"
#include "exec/backends/cpu/map.h"
#include "exec/backends/cpu/reduce.h"
#include "exec/backends/cpu/tables.h"

namespace meshwright::exec::cpu {

namespace {

template <typename T>
T sum_of(const T* row, std::int64_t n) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) sum += row[i];
  return sum;
}

// Returns the sum of (row[i] - mean)^2.
template <typename T>
T squares_about(const T* row, std::int64_t n, T mean) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) sum += (row[i] - mean) * (row[i] - mean);
  return sum;
}

// Returns the number that is added to every stored weight: 1 if the operation has one_plus_weight,
// otherwise 0.
template <typename T>
T offset_of(const Attributes& a) {
  return a.one_plus_weight ? T(1) : T(0);
}

// Indices of the operands of an RMSNorm or its gradient: the weight, what was saved, and dy. The
// norm of heads may have no weight, so the weight comes last in its gradient.
struct NormOperands {
  std::size_t weight = 1, saved = 2, dy = 3;
  explicit NormOperands(Op op) {
    if (op == Op::head_norm_grad) weight = 3, saved = 1, dy = 2;
  }
};

// The rows that a norm works on, which are the tensor's rows or the heads in them, and the norm's
// weight. A norm without weights gets ones.
template <typename T>
struct NormRows {
  std::int64_t count, width;
  const T* weight;
  std::vector<T> ones;

  explicit NormRows(const KernelCall& k) {
    const std::size_t place = NormOperands(k.call.op).weight;
    const bool has_weight = k.call.inputs.size() > place;
    width = has_weight ? k.in_shape(place)[0] : k.attributes().head_dim;
    count = k.in_shape(0).elements() / width;
    if (!has_weight) ones.assign(width, T(1));
    weight = has_weight ? k.in<T>(place) : ones.data();
  }
};

// Sums over a row, where g = dy * weight: `g` sums g, and `gx` sums g * (x - mean).
template <typename T>
struct Sums {
  T g = 0, gx = 0;
};

// Returns the sums of one row. This is a function because g++ does not vectorise a reduction inside
// a lambda well.
template <typename T>
Sums<T> gradient_sums(const T* x, const T* weight, T offset, const T* dy, std::int64_t h, T mean) {
  T sum = 0, sum_x = 0;
#pragma omp simd reduction(+ : sum, sum_x)
  for (std::int64_t c = 0; c < h; ++c) {
    const T g = dy[c] * (offset + weight[c]);
    sum += g;
    sum_x += g * (x[c] - mean);
  }
  return {sum, sum_x};
}

}  // namespace

template <typename T>
void layer_norm(const KernelCall& k) {
  const std::int64_t rows = k.in_shape(0)[0], h = k.in_shape(0)[1];
  const T epsilon = static_cast<T>(k.attributes().epsilon);
  const T* x = k.in<T>(0);
  const T* weight = k.in<T>(1);
  const T offset = offset_of<T>(k.attributes());
  const T* bias = k.call.inputs.size() > 2 ? k.in<T>(2) : nullptr;
  T* y = k.out<T>(0);
  T* saved = k.out<T>(1);
  for_each_row(k, rows, h, [=](std::int64_t r) {
    const T* in = x + r * h;
    T* out = y + r * h;
    const T mean = sum_of(in, h) / static_cast<T>(h);
    const T scale = T(1) / std::sqrt(squares_about(in, h, mean) / static_cast<T>(h) + epsilon);
    saved[2 * r] = mean;
    saved[2 * r + 1] = scale;
    if (bias != nullptr) {
#pragma omp simd
      for (std::int64_t c = 0; c < h; ++c)
        out[c] = (in[c] - mean) * scale * (offset + weight[c]) + bias[c];
    } else {
#pragma omp simd
      for (std::int64_t c = 0; c < h; ++c) out[c] = (in[c] - mean) * scale * (offset + weight[c]);
    }
  });
}

// Computes the gradients of LayerNorm. With g = dy * weight and z = (x - mean) / std: dx = (g -
// mean(g) - z * mean(g z)) / std.
template <typename T>
void layer_norm_grad(const KernelCall& k) {
  const std::int64_t rows = k.in_shape(0)[0], h = k.in_shape(0)[1];
  const T* x = k.in<T>(0);
  const T* weight = k.in<T>(1);
  const T offset = offset_of<T>(k.attributes());
  const T* saved = k.in<T>(2);
  const T* dy = k.in<T>(3);
  T* dx = k.out<T>(0);
  for_each_row(k, rows, h, [=](std::int64_t r) {
    const T* in = x + r * h;
    const T* d = dy + r * h;
    T* out = dx + r * h;
    const T mean = saved[2 * r], scale = saved[2 * r + 1];
    const Sums<T> sums = gradient_sums(in, weight, offset, d, h, mean);
    const T mean_g = sums.g / static_cast<T>(h), mean_gz = sums.gx * scale / static_cast<T>(h);
#pragma omp simd
    for (std::int64_t c = 0; c < h; ++c)
      out[c] = scale * (d[c] * (offset + weight[c]) - mean_g - (in[c] - mean) * scale * mean_gz);
  });
  if (k.call.outputs.size() > 1)
    add_column_sums<T>(k, rows, h, 1, [=](std::int64_t r, std::int64_t c) {
      return dy[r * h + c] * (x[r * h + c] - saved[2 * r]) * saved[2 * r + 1];
    });
  if (k.call.outputs.size() > 2)
    add_column_sums<T>(k, rows, h, 2,
                       [=](std::int64_t r, std::int64_t c) { return dy[r * h + c]; });
}

template <typename T>
void rms_norm(const KernelCall& k) {
  const NormRows<T> of(k);
  const std::int64_t rows = of.count, h = of.width;
  const T epsilon = static_cast<T>(k.attributes().epsilon);
  const T* x = k.in<T>(0);
  const T* weight = of.weight;
  const T offset = offset_of<T>(k.attributes());
  T* y = k.out<T>(0);
  T* saved = k.out<T>(1);
  for_each_row(k, rows, h, [=](std::int64_t r) {
    const T* in = x + r * h;
    T* out = y + r * h;
    const T scale = T(1) / std::sqrt(dot(in, in, h) / static_cast<T>(h) + epsilon);
    saved[r] = scale;
#pragma omp simd
    for (std::int64_t c = 0; c < h; ++c) out[c] = in[c] * scale * (offset + weight[c]);
  });
}

// Computes the gradients of RMSNorm. With g = dy * weight and z = x / rms: dx = (g - z * mean(g z))
// / rms.
template <typename T>
void rms_norm_grad(const KernelCall& k) {
  const NormRows<T> of(k);
  const NormOperands place(k.call.op);
  const std::int64_t rows = of.count, h = of.width;
  const T* x = k.in<T>(0);
  const T* weight = of.weight;
  const T offset = offset_of<T>(k.attributes());
  const T* saved = k.in<T>(place.saved);
  const T* dy = k.in<T>(place.dy);
  T* dx = k.out<T>(0);
  for_each_row(k, rows, h, [=](std::int64_t r) {
    const T* in = x + r * h;
    const T* d = dy + r * h;
    T* out = dx + r * h;
    const T scale = saved[r];
    const T mean_gz = gradient_sums(in, weight, offset, d, h, T(0)).gx * scale / static_cast<T>(h);
#pragma omp simd
    for (std::int64_t c = 0; c < h; ++c)
      out[c] = scale * (d[c] * (offset + weight[c]) - in[c] * scale * mean_gz);
  });
  if (k.call.outputs.size() > 1)
    add_column_sums<T>(k, rows, h, 1, [=](std::int64_t r, std::int64_t c) {
      return dy[r * h + c] * x[r * h + c] * saved[r];
    });
}

template <typename T>
void head_norm(const KernelCall& k) {
  rms_norm<T>(k);
}

template <typename T>
void head_norm_grad(const KernelCall& k) {
  rms_norm_grad<T>(k);
}

// Writes for each row the mean of this rank's columns and the sum of (x - mean)^2 over them.
template <typename T>
void norm_stats(const KernelCall& k) {
  const std::int64_t rows = k.in_shape(0)[0], w = k.in_shape(0)[1];
  const T* x = k.in<T>(0);
  T* stats = k.out<T>(0);
  for_each_row(k, rows, w, [=](std::int64_t r) {
    const T mean = sum_of(x + r * w, w) / static_cast<T>(w);
    stats[r] = mean;
    stats[rows + r] = squares_about(x + r * w, w, mean);
  });
}

namespace {

// Returns the mean and 1/std of row r over the `ranks * w` columns of all ranks, combined from the
// ranks' statistics (Chan, Golub and LeVeque 1979). With `rms`, returns 0 and 1/rms.
template <typename T>
std::pair<T, T> combined(const T* stats, std::int64_t r, std::int64_t rows, std::int64_t ranks,
                         std::int64_t w, bool rms, T epsilon) {
  T mean = 0, squares = 0;
  for (std::int64_t t = 0; t < ranks && !rms; ++t) mean += stats[2 * t * rows + r];
  mean /= static_cast<T>(ranks);
  for (std::int64_t t = 0; t < ranks; ++t) {
    const T off = stats[2 * t * rows + r] - mean;
    squares += stats[(2 * t + 1) * rows + r] + static_cast<T>(w) * off * off;
  }
  return {mean, T(1) / std::sqrt(squares / static_cast<T>(ranks * w) + epsilon)};
}

// Returns what norm_parts saved of row r: its mean (0 with rms) and 1/std or 1/rms.
template <typename T>
std::pair<T, T> saved_of(const T* saved, std::int64_t r, bool rms) {
  return rms ? std::pair{T(0), saved[r]} : std::pair{saved[2 * r], saved[2 * r + 1]};
}

}  // namespace

template <typename T>
void norm_parts(const KernelCall& k) {
  const std::int64_t rows = k.in_shape(0)[0], w = k.in_shape(0)[1];
  const std::int64_t ranks = k.attributes().tensor_degree;
  const std::size_t last = k.call.inputs.size() - 1;
  const bool rms = k.attributes().rms_norm;
  const T epsilon = static_cast<T>(k.attributes().epsilon);
  const T* x = k.in<T>(0);
  const T* weight = k.in<T>(1);
  const T offset = offset_of<T>(k.attributes());
  const T* bias = last > 2 ? k.in<T>(2) : nullptr;
  const T* stats = k.in<T>(last);
  T* y = k.out<T>(0);
  T* saved = k.out<T>(1);
  parallel_for(k.pool, rows, rows_per_piece(w), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const auto of_row = combined(stats, r, rows, ranks, w, rms, epsilon);
      const T mean = of_row.first, scale = of_row.second;
      if (!rms) saved[2 * r] = mean;
      saved[rms ? r : 2 * r + 1] = scale;
      const T* in = x + r * w;
      T* out = y + r * w;
#pragma omp simd
      for (std::int64_t c = 0; c < w; ++c) out[c] = (in[c] - mean) * scale * (offset + weight[c]);
      if (bias == nullptr) continue;
#pragma omp simd
      for (std::int64_t c = 0; c < w; ++c) out[c] += bias[c];
    }
  });
}

template <typename T>
void norm_parts_sums(const KernelCall& k) {
  const std::int64_t rows = k.in_shape(0)[0], w = k.in_shape(0)[1];
  const bool rms = k.attributes().rms_norm;
  const T* x = k.in<T>(0);
  const T* weight = k.in<T>(1);
  const T offset = offset_of<T>(k.attributes());
  const T* saved = k.in<T>(2);
  const T* dy = k.in<T>(3);
  T* out = k.out<T>(0);
  for_each_row(k, rows, w, [=](std::int64_t r) {
    const auto of_row = saved_of(saved, r, rms);
    const Sums<T> sums = gradient_sums(x + r * w, weight, offset, dy + r * w, w, of_row.first);
    out[r] = sums.g;
    out[rows + r] = sums.gx * of_row.second;
  });
  if (k.call.outputs.size() > 1)
    add_column_sums<T>(k, rows, w, 1, [=](std::int64_t r, std::int64_t c) {
      const auto of_row = saved_of(saved, r, rms);
      return dy[r * w + c] * (x[r * w + c] - of_row.first) * of_row.second;
    });
  if (k.call.outputs.size() > 2)
    add_column_sums<T>(k, rows, w, 2,
                       [=](std::int64_t r, std::int64_t c) { return dy[r * w + c]; });
}

// Works like layer_norm_grad and rms_norm_grad, but is given the sums over all ranks' columns.
template <typename T>
void norm_parts_grad(const KernelCall& k) {
  const std::int64_t rows = k.in_shape(0)[0], w = k.in_shape(0)[1];
  const T width = static_cast<T>(w * k.attributes().tensor_degree);
  const bool rms = k.attributes().rms_norm;
  const T* x = k.in<T>(0);
  const T* weight = k.in<T>(1);
  const T offset = offset_of<T>(k.attributes());
  const T* saved = k.in<T>(2);
  const T* dy = k.in<T>(3);
  const T* sums = k.in<T>(4);
  T* dx = k.out<T>(0);
  for_each_row(k, rows, w, [=](std::int64_t r) {
    const auto of_row = saved_of(saved, r, rms);
    const T mean = of_row.first, scale = of_row.second;
    const T mean_g = rms ? T(0) : sums[r] / width, mean_gz = sums[rows + r] / width;
    const T* in = x + r * w;
    const T* d = dy + r * w;
    T* out = dx + r * w;
#pragma omp simd
    for (std::int64_t c = 0; c < w; ++c)
      out[c] = scale * (d[c] * (offset + weight[c]) - mean_g - (in[c] - mean) * scale * mean_gz);
  });
}

constexpr Row rows[] = {
    MESHWRIGHT_CPU_ROW(norm_stats),      MESHWRIGHT_CPU_ROW(norm_parts),
    MESHWRIGHT_CPU_ROW(norm_parts_sums), MESHWRIGHT_CPU_ROW(norm_parts_grad),
    MESHWRIGHT_CPU_ROW(layer_norm),      MESHWRIGHT_CPU_ROW(layer_norm_grad),
    MESHWRIGHT_CPU_ROW(rms_norm),        MESHWRIGHT_CPU_ROW(rms_norm_grad),
    MESHWRIGHT_CPU_ROW(head_norm),       MESHWRIGHT_CPU_ROW(head_norm_grad),
};

std::span<const Row> norm_rows() { return rows; }

}  // namespace meshwright::exec::cpu
