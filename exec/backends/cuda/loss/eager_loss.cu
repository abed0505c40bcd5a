// Cross-entropy as an eager framework computes it: first the logarithms of all probabilities, then
// the loss from those of the targets.
#include <algorithm>

#include "exec/backends/cuda/rows/softmax.cuh"
#include "exec/backends/cuda/tables.h"

namespace meshwright::exec::cuda {

namespace {

struct Words {
  int width, visible;  // columns; columns before the padding
  explicit Words(const KernelCall& k) : width(width_of(k.in_shape(0)[1])), visible(width) {
    const std::int64_t vocabulary = k.attributes().vocabulary;
    if (vocabulary > 0) visible = static_cast<int>(std::min<std::int64_t>(vocabulary, width));
  }
};

template <int row_threads, typename T>
__global__ void __launch_bounds__(threads_of_block<row_threads>)
    log_softmax_kernel(const T* __restrict__ x, float* __restrict__ y, long long rows, Words words,
                       bool in_groups) {
  const long long row = own_row<row_threads>();
  if (row >= rows) return;  // warps return as a whole
  const T* own = x + row * words.width;
  const ExpSum all =
      exp_sum_of_row<row_threads, vector_of<T>>(own, words.visible, words.width, in_groups);
  const float log_sum = all.maximum + logf(all.sum);
  for_columns<row_threads, vector_of<T>>(words.width, in_groups, [&](int c, auto count) {
    constexpr int n = decltype(count)::value;
    float made[n];
    load<n>(own + c, made);
#pragma unroll
    for (int j = 0; j < n; ++j) made[j] = c + j < words.visible ? made[j] - log_sum : 0.0f;
    store<n>(y + row * words.width + c, made);
  });
}

void log_softmax(const KernelCall& k) {
  const Words words(k);
  const std::int64_t rows = k.in_shape(0)[0];
  with_type(k.call.inputs[0].dtype, [&]<typename T>(T) {
    constexpr int n = vector_of<T>;
    const bool in_groups =
        moves_groups<n>(k.in<T>(0), words.width) && moves_groups<4>(k.out<float>(0), words.width);
    for_rows(rows, words.width, [&](auto row_threads, Shape3 blocks, Shape3 threads) {
      launch(log_softmax_kernel<decltype(row_threads)::value, T>, blocks, threads, 0, k.stream,
             k.in<T>(0), k.out<float>(0), rows, words, in_groups);
    });
  });
}

// Computes dx = dy - softmax * sum(dy) for each row. Masked columns get exactly 0.
template <int row_threads, typename D, typename T>
__global__ void __launch_bounds__(threads_of_block<row_threads>)
    log_softmax_grad_kernel(const float* __restrict__ y, const D* __restrict__ dy,
                            T* __restrict__ dx, long long rows, Words words, bool in_groups) {
  const long long row = own_row<row_threads>();
  if (row >= rows) return;
  const long long begin = row * words.width;
  float sum = 0;
  for_columns<row_threads, 4>(words.width, in_groups, [&](int c, auto count) {
    constexpr int n = decltype(count)::value;
    float d[n];
    load<n>(dy + begin + c, d);
#pragma unroll
    for (int j = 0; j < n; ++j) sum += c + j < words.visible ? d[j] : 0.0f;
  });
  sum = sum_over_row<row_threads>(sum);
  for_columns<row_threads, 4>(words.width, in_groups, [&](int c, auto count) {
    constexpr int n = decltype(count)::value;
    float logs[n], d[n];
    load<n>(y + begin + c, logs);
    load<n>(dy + begin + c, d);
#pragma unroll
    for (int j = 0; j < n; ++j)
      d[j] = c + j < words.visible ? d[j] - exp_below_0(logs[j]) * sum : 0.0f;
    store<n>(dx + begin + c, d);
  });
}

void log_softmax_grad(const KernelCall& k) {
  const Words words(k);
  const std::int64_t rows = k.in_shape(0)[0];
  with_type(k.call.inputs[1].dtype, [&]<typename D>(D) {
    with_type(k.call.outputs[0].dtype, [&]<typename T>(T) {
      const bool in_groups = moves_groups<4>(k.in<float>(0), words.width) &&
                             moves_groups<4>(k.in<D>(1), words.width) &&
                             moves_groups<4>(k.out<T>(0), words.width);
      for_rows(rows, words.width, [&](auto row_threads, Shape3 blocks, Shape3 threads) {
        launch(log_softmax_grad_kernel<decltype(row_threads)::value, D, T>, blocks, threads, 0,
               k.stream, k.in<float>(0), k.in<D>(1), k.out<T>(0), rows, words, in_groups);
      });
    });
  });
}

// Computes each row's loss, which is 0 if the row has no target. A target outside the vocabulary is
// an error of the data, and its loss is NaN.
template <typename T>
__global__ void __launch_bounds__(256)
    nll_kernel(const T* __restrict__ logs, const int* __restrict__ targets,
               float* __restrict__ loss, long long rows, Words words) {
  const long long row = blockIdx.x * 256LL + threadIdx.x;
  if (row >= rows) return;
  const int target = targets[row];
  loss[row] = target == ignored_target                ? 0.0f
              : target >= 0 && target < words.visible ? -widened(logs[row * words.width + target])
                                                      : NAN;
}

void nll_loss(const KernelCall& k) {
  const std::int64_t rows = k.in_shape(0)[0];
  with_type(k.call.inputs[0].dtype, [&]<typename T>(T) {
    launch(nll_kernel<T>, {blocks_for(rows, 256)}, {256}, 0, k.stream, k.in<T>(0), k.in<int>(1),
           k.out<float>(0), rows, Words(k));
  });
}

template <int row_threads, typename T>
__global__ void __launch_bounds__(threads_of_block<row_threads>)
    nll_grad_kernel(const int* __restrict__ targets, const float* __restrict__ loss_scale,
                    float scale, T* __restrict__ d, long long rows, int width, bool in_groups) {
  const long long row = own_row<row_threads>();
  if (row >= rows) return;
  const int target = targets[row];
  const float at_target = -(loss_scale == nullptr ? scale : scale * loss_scale[0]);
  for_columns<row_threads, vector_of<T>>(width, in_groups, [&](int c, auto count) {
    constexpr int n = decltype(count)::value;
    float made[n];
#pragma unroll
    for (int j = 0; j < n; ++j) made[j] = c + j == target ? at_target : 0.0f;
    store<n>(d + row * width + c, made);
  });
}

void nll_loss_grad(const KernelCall& k) {
  const int width = width_of(k.in_shape(0)[1]);
  const std::int64_t rows = k.in_shape(0)[0];
  const float* loss_scale = k.call.inputs.size() > 2 ? k.in<float>(2) : nullptr;
  with_type(k.call.outputs[0].dtype, [&]<typename T>(T) {
    for_rows(rows, width, [&](auto row_threads, Shape3 blocks, Shape3 threads) {
      launch(nll_grad_kernel<decltype(row_threads)::value, T>, blocks, threads, 0, k.stream,
             k.in<int>(1), loss_scale, static_cast<float>(k.attributes().scale), k.out<T>(0), rows,
             width, moves_groups<vector_of<T>>(k.out<T>(0), width));
    });
  });
}

constexpr Row rows[] = {
    {Op::log_softmax, log_softmax},
    {Op::log_softmax_grad, log_softmax_grad},
    {Op::nll_loss, nll_loss},
    {Op::nll_loss_grad, nll_loss_grad},
};

}  // namespace

std::span<const Row> eager_loss_rows() { return rows; }

}  // namespace meshwright::exec::cuda
