// Code that the kernels of norms share. A row has a mean (0 for RMSNorm) and a scale, 1/std or
// 1/rms. With z = (x - mean) * scale, y = z * weight + bias. With g = dy * weight, dx = scale * (g
// - mean(g) - z * mean(g z)), but RMSNorm has no mean(g). With one_plus_weight, a weight is the
// stored element plus 1.
#pragma once

#include "exec/backends/cuda/device/launch.h"
#include "exec/backends/cuda/device/types.cuh"
#include "exec/backends/cuda/kernels.h"
#include "exec/backends/cuda/rows/column_sums.cuh"

namespace meshwright::exec::cuda {

struct Statistics {
  float mean, scale;
};

// These two functions load and store the saved statistics of a row. Their array is [rows,2], or
// [rows,1] for RMSNorm, which has no mean.
template <bool rms>
__device__ inline Statistics load_statistics(const float* saved, long long row) {
  if constexpr (rms) return {0.0f, saved[row]};
  return {saved[2 * row], saved[2 * row + 1]};
}
template <bool rms>
__device__ inline void store_statistics(float* saved, long long row, Statistics of) {
  if (!rms) saved[2 * row] = of.mean;
  saved[rms ? row : 2 * row + 1] = of.scale;
}

inline float offset_of(const Attributes& a) { return a.one_plus_weight ? 1.0f : 0.0f; }

// Stores n neighbouring columns of y. All pointers are those of the first column. `bias` is null if
// the norm has none.
template <int n, typename T>
__device__ inline void store_normed(const float (&x)[n], Statistics of, const T* weight,
                                    float offset, const T* bias, T* y) {
  float w[n], b[n] = {}, out[n];
  load<n>(weight, w);
  if (bias != nullptr) load<n>(bias, b);
#pragma unroll
  for (int j = 0; j < n; ++j) out[j] = (x[j] - of.mean) * of.scale * (offset + w[j]) + b[j];
  store<n>(y, out);
}

// Stores n neighbouring columns of dx. For RMSNorm, mean_g must be 0.
template <int n, typename T>
__device__ inline void store_gradient(const float (&x)[n], const float (&g)[n], Statistics of,
                                      float mean_g, float mean_gz, T* dx) {
  float out[n];
#pragma unroll
  for (int j = 0; j < n; ++j)
    out[j] = of.scale * (g[j] - mean_g - (x[j] - of.mean) * of.scale * mean_gz);
  store<n>(dx, out);
}

// ---- rows of any width: a block has one row and reads it again for each step

constexpr int any_threads = 256;

// Calls f(column, values) for the thread's columns, n neighbours at a time.
template <int n, typename T, typename F>
__device__ inline void for_columns(const T* row, long long width, F f) {
  for (long long column = threadIdx.x * n; column < width; column += any_threads * n) {
    float x[n];
    load<n>(row + column, x);
    f(column, x);
  }
}

template <int n, typename T>
__device__ inline float row_mean(const T* row, long long width) {
  float sum[1] = {};
  for_columns<n>(row, width, [&](long long, const float(&x)[n]) {
#pragma unroll
    for (int j = 0; j < n; ++j) sum[0] += x[j];
  });
  add_over_row<any_threads>(sum);
  return sum[0] / static_cast<float>(width);
}

// Returns the sum over a row of (x - mean)^2.
template <int n, typename T>
__device__ inline float row_squares(const T* row, long long width, float mean) {
  float sum[1] = {};
  for_columns<n>(row, width, [&](long long, const float(&x)[n]) {
#pragma unroll
    for (int j = 0; j < n; ++j) sum[0] += square(x[j] - mean);
  });
  add_over_row<any_threads>(sum);
  return sum[0];
}

template <int n, typename T>
__device__ inline void write_normed(const T* x, long long width, Statistics of, const T* weight,
                                    float offset, const T* bias, T* y) {
  for_columns<n>(x, width, [&](long long column, const float(&part)[n]) {
    store_normed(part, of, weight + column, offset, bias == nullptr ? bias : bias + column,
                 y + column);
  });
}

// The sums over a row of g = dy * weight and of g z, where z = (x - mean) * scale.
struct GradientSums {
  float g, gz;
};
template <int n, typename T>
__device__ inline GradientSums row_gradient_sums(const T* x, const T* weight, float offset,
                                                 const T* dy, long long width, Statistics of) {
  float sums[2] = {};
  for_columns<n>(x, width, [&](long long column, const float(&part)[n]) {
    float w[n], d[n];
    load<n>(weight + column, w);
    load<n>(dy + column, d);
#pragma unroll
    for (int j = 0; j < n; ++j) {
      const float g = d[j] * (offset + w[j]);
      sums[0] += g;
      sums[1] += g * (part[j] - of.mean);
    }
  });
  add_over_row<any_threads>(sums);
  return {sums[0], sums[1] * of.scale};
}

template <int n, typename T>
__device__ inline void write_gradient(const T* x, const T* weight, float offset, const T* dy,
                                      long long width, Statistics of, float mean_g, float mean_gz,
                                      T* dx) {
  for_columns<n>(x, width, [&](long long column, const float(&part)[n]) {
    float w[n], g[n];
    load<n>(weight + column, w);
    load<n>(dy + column, g);
#pragma unroll
    for (int j = 0; j < n; ++j) g[j] *= offset + w[j];
    store_gradient(part, g, of, mean_g, mean_gz, dx + column);
  });
}

// A term for add_column_sums(): the gradients of the weight and, if there is one, of the bias.
template <typename T, bool rms, bool has_bias>
struct WeightGradients {
  static constexpr int sums = has_bias ? 2 : 1;
  const T *x, *dy;
  const float* saved;
  long long width;

  template <int n>
  __device__ void add(long long row, long long column, float (&total)[sums][n]) const {
    const Statistics of = load_statistics<rms>(saved, row);
    float part[n], d[n];
    load<n>(x + row * width + column, part);
    load<n>(dy + row * width + column, d);
#pragma unroll
    for (int j = 0; j < n; ++j) {
      total[0][j] += d[j] * (part[j] - of.mean) * of.scale;
      if constexpr (has_bias) total[1][j] += d[j];
    }
  }
};

// Indices of the inputs of a norm or its gradient: the weight, the saved statistics, and dy. Norms
// have x, weight, (bias) and gradients x, weight, saved, dy. Norms of heads have x, (weight) and
// gradients x, saved, dy, (weight).
struct NormOperands {
  std::size_t weight = 1, saved = 2, dy = 3;
  explicit NormOperands(Op op) {
    if (op == Op::head_norm_grad) weight = 3, saved = 1, dy = 2;
  }
};

// The rows that a norm works on, which are the tensor's rows or the heads in them.
struct NormRows {
  std::int64_t count, width;
  explicit NormRows(const KernelCall& k) : width(k.attributes().head_dim) {
    const std::size_t weight = NormOperands(k.call.op).weight;
    if (k.call.inputs.size() > weight) width = k.in_shape(weight)[0];
    count = k.in_shape(0).elements() / width;
  }
};

template <int n, typename T, bool rms>
void add_weight_gradients(const KernelCall& k) {
  if (k.call.outputs.size() < 2) return;  // the weight is not trained
  const NormRows of(k);
  const NormOperands place(k.call.op);
  const std::int64_t rows = of.count, width = of.width;
  const T *x = k.in<T>(0), *dy = k.in<T>(place.dy);
  const float* saved = k.in<float>(place.saved);
  if (k.call.outputs.size() > 2)
    add_column_sums<n>(k, rows, width, WeightGradients<T, rms, true>{x, dy, saved, width}, 1);
  else
    add_column_sums<n>(k, rows, width, WeightGradients<T, rms, false>{x, dy, saved, width}, 1);
}

}  // namespace meshwright::exec::cuda
