// LayerNorm and RMSNorm. The statistics of a row are saved by the forward pass: mean and 1/std, or
// 1/rms.
#include <cmath>

#include "exec/backends/cpu/column_sum.h"
#include "exec/backends/cpu/kernels.h"
#include "exec/backends/cpu/reduce.h"

namespace meshwright::cpu {

namespace {

template <typename T>
T sum_of(const T* row, std::int64_t n) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) sum += row[i];
  return sum;
}

// The sum of (row[i] - mean)^2.
template <typename T>
T squares_about(const T* row, std::int64_t n, T mean) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) sum += (row[i] - mean) * (row[i] - mean);
  return sum;
}

// With g = dy * weight: the sum of g, and the sum of g * (x - mean).
template <typename T>
struct Sums {
  T g = 0, gx = 0;
};

// A function of its own: g++ does not vectorise a reduction inside a lambda well.
template <typename T>
Sums<T> gradient_sums(const T* x, const T* weight, const T* dy, std::int64_t h, T mean) {
  T sum = 0, sum_x = 0;
#pragma omp simd reduction(+ : sum, sum_x)
  for (std::int64_t c = 0; c < h; ++c) {
    const T g = dy[c] * weight[c];
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
  const T* bias = k.call.inputs.size() > 2 ? k.in<T>(2) : nullptr;
  T* y = k.out<T>(0);
  T* saved = k.out<T>(1);
  parallel_for(k.pool, rows, rows_per_piece(h), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const T* in = x + r * h;
      T* out = y + r * h;
      const T mean = sum_of(in, h) / static_cast<T>(h);
      const T scale = T(1) / std::sqrt(squares_about(in, h, mean) / static_cast<T>(h) + epsilon);
      saved[2 * r] = mean;
      saved[2 * r + 1] = scale;
      if (bias != nullptr) {
#pragma omp simd
        for (std::int64_t c = 0; c < h; ++c) out[c] = (in[c] - mean) * scale * weight[c] + bias[c];
      } else {
#pragma omp simd
        for (std::int64_t c = 0; c < h; ++c) out[c] = (in[c] - mean) * scale * weight[c];
      }
    }
  });
}

// With g = dy * weight and z = (x - mean) / std:  dx = (g - mean(g) - z * mean(g z)) / std.
template <typename T>
void layer_norm_grad(const KernelCall& k) {
  const std::int64_t rows = k.in_shape(0)[0], h = k.in_shape(0)[1];
  const T* x = k.in<T>(0);
  const T* weight = k.in<T>(1);
  const T* saved = k.in<T>(2);
  const T* dy = k.in<T>(3);
  T* dx = k.out<T>(0);
  parallel_for(k.pool, rows, rows_per_piece(h), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const T* in = x + r * h;
      const T* d = dy + r * h;
      T* out = dx + r * h;
      const T mean = saved[2 * r], scale = saved[2 * r + 1];
      const Sums<T> sums = gradient_sums(in, weight, d, h, mean);
      const T mean_g = sums.g / static_cast<T>(h), mean_gz = sums.gx * scale / static_cast<T>(h);
#pragma omp simd
      for (std::int64_t c = 0; c < h; ++c)
        out[c] = scale * (d[c] * weight[c] - mean_g - (in[c] - mean) * scale * mean_gz);
    }
  });
  add_column_sums(k.pool, rows, h, k.out<T>(1), [=](std::int64_t r, std::int64_t c) {
    return dy[r * h + c] * (x[r * h + c] - saved[2 * r]) * saved[2 * r + 1];
  });
  if (k.call.outputs.size() > 2)
    add_column_sums(k.pool, rows, h, k.out<T>(2),
                    [=](std::int64_t r, std::int64_t c) { return dy[r * h + c]; });
}

template <typename T>
void rms_norm(const KernelCall& k) {
  const std::int64_t rows = k.in_shape(0)[0], h = k.in_shape(0)[1];
  const T epsilon = static_cast<T>(k.attributes().epsilon);
  const T* x = k.in<T>(0);
  const T* weight = k.in<T>(1);
  T* y = k.out<T>(0);
  T* saved = k.out<T>(1);
  parallel_for(k.pool, rows, rows_per_piece(h), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const T* in = x + r * h;
      T* out = y + r * h;
      const T scale = T(1) / std::sqrt(dot(in, in, h) / static_cast<T>(h) + epsilon);
      saved[r] = scale;
#pragma omp simd
      for (std::int64_t c = 0; c < h; ++c) out[c] = in[c] * scale * weight[c];
    }
  });
}

// With g = dy * weight and z = x / rms:  dx = (g - z * mean(g z)) / rms.
template <typename T>
void rms_norm_grad(const KernelCall& k) {
  const std::int64_t rows = k.in_shape(0)[0], h = k.in_shape(0)[1];
  const T* x = k.in<T>(0);
  const T* weight = k.in<T>(1);
  const T* saved = k.in<T>(2);
  const T* dy = k.in<T>(3);
  T* dx = k.out<T>(0);
  parallel_for(k.pool, rows, rows_per_piece(h), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const T* in = x + r * h;
      const T* d = dy + r * h;
      T* out = dx + r * h;
      const T scale = saved[r];
      const T mean_gz = gradient_sums(in, weight, d, h, T(0)).gx * scale / static_cast<T>(h);
#pragma omp simd
      for (std::int64_t c = 0; c < h; ++c)
        out[c] = scale * (d[c] * weight[c] - in[c] * scale * mean_gz);
    }
  });
  add_column_sums(k.pool, rows, h, k.out<T>(1), [=](std::int64_t r, std::int64_t c) {
    return dy[r * h + c] * x[r * h + c] * saved[r];
  });
}

MESHWRIGHT_CPU_INSTANTIATE(layer_norm);
MESHWRIGHT_CPU_INSTANTIATE(layer_norm_grad);
MESHWRIGHT_CPU_INSTANTIATE(rms_norm);
MESHWRIGHT_CPU_INSTANTIATE(rms_norm_grad);

}  // namespace meshwright::cpu
