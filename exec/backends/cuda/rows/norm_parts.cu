// Norms over rows whose columns are sharded over the ranks of a tensor group (norm.cuh).
#include "exec/backends/cuda/rows/norm.cuh"
#include "exec/backends/cuda/tables.h"

namespace meshwright::exec::cuda {

namespace {

template <typename T, int vector>
__global__ void __launch_bounds__(any_threads)
    stats_kernel(const T* __restrict__ x, long long width, float* __restrict__ stats) {
  const long long row = blockIdx.x, rows = gridDim.x;
  const float mean = row_mean<vector>(x + row * width, width);
  const float squares = row_squares<vector>(x + row * width, width, mean);
  if (threadIdx.x == 0) {
    stats[row] = mean;
    stats[rows + row] = squares;
  }
}

// Writes for each row the mean of this rank's columns and the sum of (x - mean)^2 over them.
void norm_stats(const KernelCall& k) {
  const std::int64_t rows = k.in_shape(0)[0], width = k.in_shape(0)[1];
  with_vectors(k.call.inputs[0].dtype, width, [&]<typename T, int vector>() {
    launch(stats_kernel<T, vector>, {blocks_for(rows, 1)}, {any_threads}, 0, k.stream, k.in<T>(0),
           width, k.out<float>(0));
  });
}

template <typename T>
struct Parts {
  const T *x, *weight, *bias, *dy;
  const float *stats, *given, *sums;
  T* out;       // y or dx
  float* made;  // saved statistics, or the sums for the gradient
  long long width;
  int ranks;
  float epsilon, offset;
};

// Returns a row's mean and 1/std over all ranks' columns, combined from the ranks' statistics
// (Chan, Golub and LeVeque 1979). With `rms`, returns 0 and 1/rms.
template <bool rms>
__device__ Statistics combined(const float* stats, long long row, long long rows, long long width,
                               int ranks, float epsilon) {
  float mean = 0.0f, squares = 0.0f;
  if (!rms) {
    for (int rank = 0; rank < ranks; ++rank) mean += stats[2 * rank * rows + row];
    mean /= static_cast<float>(ranks);
  }
  for (int rank = 0; rank < ranks; ++rank)
    squares += stats[(2 * rank + 1) * rows + row] +
               static_cast<float>(width) * square(stats[2 * rank * rows + row] - mean);
  return {mean, rsqrtf(squares / static_cast<float>(width * ranks) + epsilon)};
}

template <typename T, int vector, bool rms>
__global__ void __launch_bounds__(any_threads) parts_kernel(Parts<T> k) {
  const long long row = blockIdx.x, first = row * k.width;
  const Statistics of = combined<rms>(k.stats, row, gridDim.x, k.width, k.ranks, k.epsilon);
  if (threadIdx.x == 0) store_statistics<rms>(k.made, row, of);
  write_normed<vector>(k.x + first, k.width, of, k.weight, k.offset, k.bias, k.out + first);
}

template <typename T, int vector, bool rms>
__global__ void __launch_bounds__(any_threads) sums_kernel(Parts<T> k) {
  const long long row = blockIdx.x, first = row * k.width;
  const GradientSums sums = row_gradient_sums<vector>(k.x + first, k.weight, k.offset, k.dy + first,
                                                      k.width, load_statistics<rms>(k.given, row));
  if (threadIdx.x == 0) {
    k.made[row] = sums.g;
    k.made[gridDim.x + row] = sums.gz;
  }
}

template <typename T, int vector, bool rms>
__global__ void __launch_bounds__(any_threads) grad_kernel(Parts<T> k) {
  const long long row = blockIdx.x, rows = gridDim.x, first = row * k.width;
  const auto all = static_cast<float>(k.width * k.ranks);
  write_gradient<vector>(k.x + first, k.weight, k.offset, k.dy + first, k.width,
                         load_statistics<rms>(k.given, row), rms ? 0.0f : k.sums[row] / all,
                         k.sums[rows + row] / all, k.out + first);
}

// Calls work.operator()<T, vector, rms>() with the type of the first input, the elements that are
// moved at once, and whether the norm is RMSNorm.
template <typename Work>
void with_norm(const KernelCall& k, Work work) {
  with_vectors(k.call.inputs[0].dtype, k.in_shape(0)[1], [&]<typename T, int vector>() {
    if (k.attributes().rms_norm)
      work.template operator()<T, vector, true>();
    else
      work.template operator()<T, vector, false>();
  });
}

template <typename T>
Parts<T> parts_of(const KernelCall& k) {
  Parts<T> parts = {};
  parts.x = k.in<T>(0);
  parts.weight = k.in<T>(1);
  parts.width = k.in_shape(0)[1];
  parts.ranks = k.attributes().tensor_degree;
  parts.epsilon = static_cast<float>(k.attributes().epsilon);
  parts.offset = offset_of(k.attributes());
  return parts;
}

void norm_parts(const KernelCall& k) {
  const unsigned int rows = blocks_for(k.in_shape(0)[0], 1);
  const std::size_t last = k.call.inputs.size() - 1;
  with_norm(k, [&]<typename T, int vector, bool rms>() {
    Parts<T> parts = parts_of<T>(k);
    parts.bias = last > 2 ? k.in<T>(2) : nullptr;
    parts.stats = k.in<float>(last);
    parts.out = k.out<T>(0);
    parts.made = k.out<float>(1);
    launch(parts_kernel<T, vector, rms>, {rows}, {any_threads}, 0, k.stream, parts);
  });
}

void norm_parts_sums(const KernelCall& k) {
  const unsigned int rows = blocks_for(k.in_shape(0)[0], 1);
  with_norm(k, [&]<typename T, int vector, bool rms>() {
    Parts<T> parts = parts_of<T>(k);
    parts.given = k.in<float>(2);
    parts.dy = k.in<T>(3);
    parts.made = k.out<float>(0);
    launch(sums_kernel<T, vector, rms>, {rows}, {any_threads}, 0, k.stream, parts);
    add_weight_gradients<vector, T, rms>(k);
  });
}

void norm_parts_grad(const KernelCall& k) {
  const unsigned int rows = blocks_for(k.in_shape(0)[0], 1);
  with_norm(k, [&]<typename T, int vector, bool rms>() {
    Parts<T> parts = parts_of<T>(k);
    parts.given = k.in<float>(2);
    parts.dy = k.in<T>(3);
    parts.sums = k.in<float>(4);
    parts.out = k.out<T>(0);
    launch(grad_kernel<T, vector, rms>, {rows}, {any_threads}, 0, k.stream, parts);
  });
}

constexpr Row rows[] = {
    {Op::norm_stats, norm_stats},
    {Op::norm_parts, norm_parts},
    {Op::norm_parts_sums, norm_parts_sums},
    {Op::norm_parts_grad, norm_parts_grad},
};

}  // namespace

std::span<const Row> norm_parts_rows() { return rows; }

}  // namespace meshwright::exec::cuda
