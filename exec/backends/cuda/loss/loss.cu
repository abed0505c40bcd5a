// Cross-entropy over a vocabulary (whole, or sharded over the ranks of a tensor group), and over
// the positions of a sequence (question answering).
#include "exec/backends/cuda/device/types.cuh"
#include "exec/backends/cuda/loss/vocabulary.cuh"
#include "exec/backends/cuda/tables.h"

namespace meshwright::exec::cuda {

namespace {

template <int row_threads, typename T>
__global__ void __launch_bounds__(threads_of_block<row_threads>)
    cross_entropy_kernel(const T* __restrict__ logits, const int* __restrict__ targets,
                         float* __restrict__ loss, float* __restrict__ saved, long long rows,
                         Columns columns, bool in_groups) {
  const long long row = own_row<row_threads>();
  if (row >= rows) return;  // warps return as a whole
  const T* own = logits + row * columns.width;
  const ExpSum all =
      exp_sum_of_row<row_threads, vector_of<T>>(own, columns.visible, columns.width, in_groups);
  if (place_in_row<row_threads>() != 0) return;
  const bool ignored = targets[row] == ignored_target;
  const float log_sum = ignored ? 0.0f : all.maximum + logf(all.sum);
  saved[row] = log_sum;
  loss[row] = ignored ? 0.0f : log_sum - logit_of(own, columns.of(targets[row]));
}

// Writes three statistics of each row over this rank's columns: the maximum, the sum of exp(logit -
// maximum), and the target's logit (0 on the ranks that do not have it). An ignored row gets values
// whose combined loss is 0.
template <int row_threads, typename T>
__global__ void __launch_bounds__(threads_of_block<row_threads>)
    stats_kernel(const T* __restrict__ logits, const int* __restrict__ targets,
                 float* __restrict__ stats, long long rows, Columns columns, bool in_groups) {
  const long long row = own_row<row_threads>();
  if (row >= rows) return;
  const T* own = logits + row * columns.width;
  const ExpSum all =
      exp_sum_of_row<row_threads, vector_of<T>>(own, columns.visible, columns.width, in_groups);
  if (place_in_row<row_threads>() != 0) return;
  if (targets[row] == ignored_target) {
    stats[row] = stats[2 * rows + row] = 0;
    stats[rows + row] = columns.first == 0 ? 1.0f : 0.0f;
    return;
  }
  const int target = columns.of(targets[row]);
  stats[row] = columns.visible > 0 ? all.maximum : -INFINITY;
  stats[rows + row] = all.sum;
  stats[2 * rows + row] = target >= 0 ? widened(own[target]) : 0.0f;
}

// Computes each row's loss and log-sum-exp from the statistics of all ranks, which are stored one
// after the other in the order of the ranks.
__global__ void __launch_bounds__(256)
    combine_kernel(const float* __restrict__ stats, float* __restrict__ loss,
                   float* __restrict__ saved, long long rows, int ranks) {
  const long long row = blockIdx.x * 256LL + threadIdx.x;
  if (row >= rows) return;
  float maximum = stats[row];
  for (int t = 1; t < ranks; ++t) maximum = fmaxf(maximum, stats[3 * t * rows + row]);
  float sum = 0, target_logit = 0;
  for (int t = 0; t < ranks; ++t) {
    const float* of_rank = stats + 3 * t * rows + row;
    sum += of_rank[rows] * expf(of_rank[0] - maximum);
    target_logit += of_rank[2 * rows];
  }
  const float log_sum = maximum + logf(sum);
  saved[row] = log_sum;
  loss[row] = log_sum - target_logit;
}

// Computes the gradient of the logits. It may overwrite the logits, because each thread writes only
// elements that no other thread reads.
template <int row_threads, typename T>
__global__ void __launch_bounds__(threads_of_block<row_threads>)
    grad_kernel(const T* logits, const float* __restrict__ saved, const int* __restrict__ targets,
                const float* __restrict__ loss_scale, float scale, T* d_logits, long long rows,
                Columns columns, bool in_groups) {
  const long long row = own_row<row_threads>();
  if (row >= rows) return;
  const bool ignored = targets[row] == ignored_target;
  const float factor = ignored ? 0.0f : loss_scale == nullptr ? scale : scale * loss_scale[0];
  const float log_sum = saved[row];
  const int target = columns.of(targets[row]);
  const T* own = logits + row * columns.width;
  T* to = d_logits + row * columns.width;
  for_columns<row_threads, vector_of<T>>(columns.width, in_groups, [&](int c, auto count) {
    constexpr int n = decltype(count)::value;
    float x[n];
    load<n>(own + c, x);
#pragma unroll
    for (int j = 0; j < n; ++j) x[j] = columns.gradient(c + j, x[j], log_sum, factor, target);
    store<n>(to + c, x);
  });
}

// The classifications of question answering. Numbers 2 * b and 2 * b + 1 are over the tokens of
// sequence b, for the start and the end of the answer. Token i's logit is 2 * i elements after
// begin().
struct Spans {
  long long count;
  int tokens;
  __device__ long long begin(long long index) const { return index / 2 * tokens * 2 + index % 2; }
  __device__ int target(const int* targets, long long index) const {
    const int target = targets[index];
    return target >= 0 && target < tokens ? target : -1;
  }
};

constexpr int span_threads = warp_of_row;

template <typename T>
__global__ void __launch_bounds__(threads_of_block<span_threads>)
    span_kernel(const T* __restrict__ logits, const int* __restrict__ targets,
                float* __restrict__ loss, float* __restrict__ saved, Spans spans) {
  const long long index = own_row<span_threads>();
  if (index >= spans.count) return;
  const T* own = logits + spans.begin(index);
  ExpSum all;
  for_columns<span_threads, 1>(spans.tokens, false, [&](int i, auto) {
    const float x[1] = {widened(own[2 * i])};
    add(all, x);
  });
  all = both_over_row<span_threads>(all);
  if (place_in_row<span_threads>() != 0) return;
  const int target = spans.target(targets, index);
  const float log_sum = all.maximum + logf(all.sum);
  saved[index] = log_sum;
  loss[index] = log_sum - logit_of(own, target >= 0 ? 2 * target : -1);
}

template <typename T>
__global__ void __launch_bounds__(threads_of_block<span_threads>)
    span_grad_kernel(const T* logits, const float* __restrict__ saved,
                     const int* __restrict__ targets, const float* __restrict__ loss_scale,
                     float scale, T* d_logits, Spans spans) {
  const long long index = own_row<span_threads>();
  if (index >= spans.count) return;
  const float factor = loss_scale == nullptr ? scale : scale * loss_scale[0];
  const float log_sum = saved[index];
  const int target = spans.target(targets, index);
  const T* own = logits + spans.begin(index);
  T* to = d_logits + spans.begin(index);
  for_columns<span_threads, 1>(spans.tokens, false, [&](int i, auto) {
    const float share = exp_below_0(widened(own[2 * i]) - log_sum) * factor;
    narrow(i == target ? share - factor : share, to[2 * i]);
  });
}

template <typename T>
bool in_groups(const T* logits, const Columns& columns) {
  return moves_groups<vector_of<T>>(logits, columns.width);
}

void cross_entropy(const KernelCall& k) {
  const Columns columns(k);
  const long long rows = k.in_shape(0)[0];
  with_type(k.call.inputs[0].dtype, [&]<typename T>(T) {
    for_rows(rows, columns.width, [&](auto row_threads, Shape3 blocks, Shape3 threads) {
      launch(cross_entropy_kernel<decltype(row_threads)::value, T>, blocks, threads, 0, k.stream,
             k.in<T>(0), k.in<int>(1), k.out<float>(0), k.out<float>(1), rows, columns,
             in_groups(k.in<T>(0), columns));
    });
  });
}

void cross_entropy_stats(const KernelCall& k) {
  const Columns columns(k);
  const long long rows = k.in_shape(0)[0];
  with_type(k.call.inputs[0].dtype, [&]<typename T>(T) {
    for_rows(rows, columns.width, [&](auto row_threads, Shape3 blocks, Shape3 threads) {
      launch(stats_kernel<decltype(row_threads)::value, T>, blocks, threads, 0, k.stream,
             k.in<T>(0), k.in<int>(1), k.out<float>(0), rows, columns,
             in_groups(k.in<T>(0), columns));
    });
  });
}

void cross_entropy_combine(const KernelCall& k) {
  const long long ranks = k.in_shape(0)[0] / 3, rows = k.in_shape(0)[1];
  launch(combine_kernel, {blocks_for(rows, 256)}, {256}, 0, k.stream, k.in<float>(0),
         k.out<float>(0), k.out<float>(1), rows, static_cast<int>(ranks));
}

void cross_entropy_grad(const KernelCall& k) {
  const Columns columns(k);
  const long long rows = k.in_shape(0)[0];
  with_type(k.call.inputs[0].dtype, [&]<typename T>(T) {
    for_rows(rows, columns.width, [&](auto row_threads, Shape3 blocks, Shape3 threads) {
      launch(grad_kernel<decltype(row_threads)::value, T>, blocks, threads, 0, k.stream, k.in<T>(0),
             k.in<float>(1), k.in<int>(2), loss_scale_of(k),
             static_cast<float>(k.attributes().scale), k.out<T>(0), rows, columns,
             in_groups(k.in<T>(0), columns) && in_groups(k.out<T>(0), columns));
    });
  });
}

Spans spans_of(const KernelCall& k, std::size_t targets) {
  return {k.in_shape(targets).elements(), k.attributes().sequence_length};
}

Shape3 span_blocks(const Spans& spans) {
  return {blocks_for(spans.count, rows_of_block<span_threads>)};
}

void span_loss(const KernelCall& k) {
  const Spans spans = spans_of(k, 1);
  with_type(k.call.inputs[0].dtype, [&]<typename T>(T) {
    launch(span_kernel<T>, span_blocks(spans), {threads_of_block<span_threads>}, 0, k.stream,
           k.in<T>(0), k.in<int>(1), k.out<float>(0), k.out<float>(1), spans);
  });
}

void span_loss_grad(const KernelCall& k) {
  const Spans spans = spans_of(k, 2);
  with_type(k.call.inputs[0].dtype, [&]<typename T>(T) {
    launch(span_grad_kernel<T>, span_blocks(spans), {threads_of_block<span_threads>}, 0, k.stream,
           k.in<T>(0), k.in<float>(1), k.in<int>(2), loss_scale_of(k),
           static_cast<float>(k.attributes().scale), k.out<T>(0), spans);
  });
}

constexpr Row rows[] = {
    {Op::cross_entropy, cross_entropy},
    {Op::cross_entropy_stats, cross_entropy_stats},
    {Op::cross_entropy_combine, cross_entropy_combine},
    {Op::cross_entropy_grad, cross_entropy_grad},
    {Op::span_loss, span_loss},
    {Op::span_loss_grad, span_loss_grad},
};

}  // namespace

std::span<const Row> loss_rows() { return rows; }

}  // namespace meshwright::exec::cuda
