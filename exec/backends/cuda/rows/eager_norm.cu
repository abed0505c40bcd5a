// RMSNorm as an eager framework computes it: a mean of squares, its inverse root, and two
// multiplications, each of which is an operation.
#include "exec/backends/cuda/rows/column_sums.cuh"
#include "exec/backends/cuda/rows/map.cuh"
#include "exec/backends/cuda/rows/wide_rows.cuh"
#include "exec/backends/cuda/tables.h"

namespace meshwright::exec::cuda {

namespace {

// Computes sums[row] = factor * dot(a[row], b[row]) for all rows of a and b.
template <int row_threads, typename T>
__global__ void __launch_bounds__(threads_of_block<row_threads>)
    dots_kernel(const T* __restrict__ a, const T* __restrict__ b, float* __restrict__ sums,
                float factor, long long rows, int width, bool in_groups) {
  const long long row = own_row<row_threads>();
  if (row >= rows) return;  // warps return as a whole
  float sum = 0;
  for_columns<row_threads, vector_of<T>>(width, in_groups, [&](int c, auto count) {
    constexpr int n = decltype(count)::value;
    float x[n], y[n];
    load<n>(a + row * width + c, x);
    load<n>(b + row * width + c, y);
#pragma unroll
    for (int j = 0; j < n; ++j) sum += x[j] * y[j];
  });
  sum = sum_over_row<row_threads>(sum);
  if (place_in_row<row_threads>() == 0) sums[row] = factor * sum;
}

void dots(const KernelCall& k, std::size_t second, float factor) {
  const int width = width_of(k.in_shape(0)[1]);
  const std::int64_t rows = k.in_shape(0)[0];
  with_type(k.call.inputs[0].dtype, [&]<typename T>(T) {
    const T *a = k.in<T>(0), *b = k.in<T>(second);
    const bool in_groups =
        moves_groups<vector_of<T>>(a, width) && moves_groups<vector_of<T>>(b, width);
    for_rows(rows, width, [&](auto row_threads, Shape3 blocks, Shape3 threads) {
      launch(dots_kernel<decltype(row_threads)::value, T>, blocks, threads, 0, k.stream, a, b,
             k.out<float>(0), factor, rows, width, in_groups);
    });
  });
}

void mean_of_squares(const KernelCall& k) {
  dots(k, 0, 1.0f / static_cast<float>(k.in_shape(0)[1]));
}
void row_dots(const KernelCall& k) { dots(k, 1, 1.0f); }

// Multiplies each row by its own factor and by one factor for all rows.
template <typename R>
struct RowFactors {
  const R* factors;
  float of_all;
  __device__ float of_row(long long row) const { return of_all * widened(factors[row]); }
  template <int n>
  __device__ void apply(float factor, int, float (&x)[n]) const {
#pragma unroll
    for (int j = 0; j < n; ++j) x[j] *= factor;
  }
};

void times_row_factors(const KernelCall& k, float of_all) {
  with_type(k.call.inputs[0].dtype, [&]<typename T>(T) {
    with_type(k.call.inputs[1].dtype, [&]<typename R>(R) {
      map_rows(k, RowFactors<R>{k.in<R>(1), of_all}, k.in<T>(0));
    });
  });
}

void scale_rows(const KernelCall& k) { times_row_factors(k, 1.0f); }
void mean_of_squares_grad(const KernelCall& k) {
  times_row_factors(k, 2.0f / static_cast<float>(k.in_shape(0)[1]));
}

template <typename T>
struct ColumnFactors {
  const T* factors;
  float offset;
  __device__ int of_row(long long) const { return 0; }
  template <int n>
  __device__ void apply(int, int column, float (&x)[n]) const {
    float factor[n];
    load<n>(factors + column, factor);
#pragma unroll
    for (int j = 0; j < n; ++j) x[j] *= offset + factor[j];
  }
};

void scale_columns(const KernelCall& k) {
  with_type(k.call.inputs[0].dtype, [&]<typename T>(T) {
    map_rows(k, ColumnFactors<T>{k.in<T>(1), k.attributes().one_plus_weight ? 1.0f : 0.0f},
             k.in<T>(0), moves_groups<vector_of<T>>(k.in<T>(1), k.in_shape(0)[1]));
  });
}

template <typename T>
struct Products {
  static constexpr int sums = 1;
  const T *a, *b;
  long long width;
  template <int n>
  __device__ void add(long long row, long long column, float (&total)[sums][n]) const {
    float x[n], y[n];
    load<n>(a + row * width + column, x);
    load<n>(b + row * width + column, y);
#pragma unroll
    for (int j = 0; j < n; ++j) total[0][j] += x[j] * y[j];
  }
};

void scale_columns_grad(const KernelCall& k) {
  const std::int64_t rows = k.in_shape(0)[0], width = k.in_shape(0)[1];
  with_vectors(k.call.inputs[0].dtype, width, [&]<typename T, int n>() {
    add_column_sums<n>(k, rows, width, Products<T>{k.in<T>(0), k.in<T>(1), width}, 0);
  });
}

struct InverseRoot : Elementwise<1> {
  float epsilon;
  __device__ void operator()(const float* x, float* y) const {
    y[0] = 1.0f / sqrtf(x[0] + epsilon);
  }
};
struct InverseRootGrad : Elementwise<2> {
  __device__ void operator()(const float* x, float* y) const {
    y[0] = -0.5f * x[0] * x[0] * x[0] * x[1];
  }
};

void inverse_root(const KernelCall& k) {
  map(k, InverseRoot{{}, static_cast<float>(k.attributes().epsilon)});
}
void inverse_root_grad(const KernelCall& k) { map(k, InverseRootGrad{}); }

constexpr Row rows[] = {
    {Op::mean_of_squares, mean_of_squares}, {Op::mean_of_squares_grad, mean_of_squares_grad},
    {Op::inverse_root, inverse_root},       {Op::inverse_root_grad, inverse_root_grad},
    {Op::scale_rows, scale_rows},           {Op::row_dots, row_dots},
    {Op::scale_columns, scale_columns},     {Op::scale_columns_grad, scale_columns_grad},
};

}  // namespace

std::span<const Row> eager_norm_rows() { return rows; }

}  // namespace meshwright::exec::cuda
