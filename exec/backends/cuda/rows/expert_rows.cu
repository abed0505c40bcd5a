// The gates of shared experts and the biases of experts, with their gradients.
#include "exec/backends/cuda/rows/wide_rows.cuh"
#include "exec/backends/cuda/tables.h"

namespace meshwright::exec::cuda {

namespace {

template <typename T>
struct Gates {
  const T* of_rows;
  __device__ float of_row(long long row) const { return sigmoid(widened(of_rows[row])); }
  template <int n>
  __device__ void apply(float factor, int, float (&x)[n]) const {
#pragma unroll
    for (int j = 0; j < n; ++j) x[j] *= factor;
  }
};

void gate_rows(const KernelCall& k) {
  with_type(k.call.inputs[0].dtype,
            [&]<typename T>(T) { map_rows(k, Gates<T>{k.in<T>(1)}, k.in<T>(0)); });
}

template <int row_threads, typename T>
__global__ void __launch_bounds__(threads_of_block<row_threads>)
    gate_rows_grad_kernel(const T* __restrict__ x, const T* __restrict__ gates,
                          const T* __restrict__ dy, T* __restrict__ dx, T* __restrict__ dgates,
                          long long rows, int width, bool in_groups) {
  const long long row = own_row<row_threads>();
  if (row >= rows) return;  // warps return as a whole
  const float factor = sigmoid(widened(gates[row]));
  float sum = 0;
  for_columns<row_threads, vector_of<T>>(width, in_groups, [&](int c, auto count) {
    constexpr int n = decltype(count)::value;
    float of_x[n], d[n];
    load<n>(x + row * width + c, of_x);
    load<n>(dy + row * width + c, d);
#pragma unroll
    for (int j = 0; j < n; ++j) {
      sum += of_x[j] * d[j];
      d[j] *= factor;
    }
    store<n>(dx + row * width + c, d);
  });
  sum = sum_over_row<row_threads>(sum) * factor * (1.0f - factor);
  if (place_in_row<row_threads>() == 0) store<1>(dgates + row, &sum);
}

void gate_rows_grad(const KernelCall& k) {
  const int width = width_of(k.in_shape(0)[1]);
  const std::int64_t rows = k.in_shape(0)[0];
  with_type(k.call.inputs[0].dtype, [&]<typename T>(T) {
    constexpr int n = vector_of<T>;
    const bool in_groups = moves_groups<n>(k.in<T>(0), width) &&
                           moves_groups<n>(k.in<T>(2), width) &&
                           moves_groups<n>(k.out<T>(0), width);
    for_rows(rows, width, [&](auto row_threads, Shape3 blocks, Shape3 threads) {
      launch(gate_rows_grad_kernel<decltype(row_threads)::value, T>, blocks, threads, 0, k.stream,
             k.in<T>(0), k.in<T>(1), k.in<T>(2), k.out<T>(0), k.out<T>(1), rows, width, in_groups);
    });
  });
}

// Groups of rows (models/program/graph/experts.h). Either all have the same number of rows, or
// `counts` has the number of each.
struct RowGroups {
  int count, of_part, matrices;  // group g has the bias g mod `matrices`
  long long rows_of_group, rows_of_part;
  const int* counts;  // null: each has rows_of_group rows

  RowGroups(const KernelCall& k, std::int64_t rows, std::int64_t biases, std::size_t counts_at)
      : count(k.attributes().experts),
        of_part(count / k.attributes().expert_parts),
        matrices(static_cast<int>(biases)),
        rows_of_group(rows / count),
        rows_of_part(k.attributes().expert_rows),
        counts(rows_of_part > 0 ? k.in<int>(counts_at) : nullptr) {}

  // Returns the group of a row, or -1 if the row belongs to no group.
  __device__ int group_of(long long row) const {
    if (counts == nullptr) return static_cast<int>(row / rows_of_group);
    int group = static_cast<int>(row / rows_of_part) * of_part;
    const int end = group + of_part;
    long long left = row % rows_of_part;
    while (group < end && left >= counts[group]) left -= counts[group++];
    return group < end ? group : -1;
  }
  __device__ long long begin_of(int group) const {
    if (counts == nullptr) return group * rows_of_group;
    long long begin = group / of_part * rows_of_part;
    for (int before = group / of_part * of_part; before < group; ++before) begin += counts[before];
    return begin;
  }
  __device__ long long rows_of(int group) const {
    return counts == nullptr ? rows_of_group : counts[group];
  }
};

template <typename T>
struct ExpertBias {
  const T* bias;
  RowGroups groups;
  int width;
  float share;
  __device__ const T* of_row(long long row) const {
    const int group = groups.group_of(row);
    return group < 0 ? nullptr : bias + static_cast<long long>(group % groups.matrices) * width;
  }
  template <int n>
  __device__ void apply(const T* own, int column, float (&x)[n]) const {
    if (own == nullptr) return;
    float more[n];
    load<n>(own + column, more);
#pragma unroll
    for (int j = 0; j < n; ++j) x[j] += share * more[j];
  }
};

void add_expert_bias(const KernelCall& k) {
  const int width = width_of(k.in_shape(0)[1]);
  const RowGroups groups(k, k.in_shape(0)[0], k.in_shape(1)[0], 2);
  const float share = 1.0F / static_cast<float>(k.attributes().tensor_degree);
  with_type(k.call.inputs[0].dtype, [&]<typename T>(T) {
    map_rows(k, ExpertBias<T>{k.in<T>(1), groups, width, share}, k.in<T>(0),
             moves_groups<vector_of<T>>(k.in<T>(1), width));
  });
}

constexpr int sum_lanes = 8, sum_threads = 32 * sum_lanes;

// Adds the gradients of the experts' biases to `sums`. A block has 32 columns of one bias, and its
// warps take the rows of each group round-robin.
template <typename T, typename Sum>
__global__ void __launch_bounds__(sum_threads)
    expert_bias_grad_kernel(const T* __restrict__ dy, Sum* __restrict__ sums, RowGroups groups,
                            int width) {
  __shared__ float of_warps[sum_lanes][33];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int column = static_cast<int>(blockIdx.x) * 32 + lane;
  const int matrix = static_cast<int>(blockIdx.y);
  float sum = 0;
  if (column < width)
    for (int group = matrix; group < groups.count; group += groups.matrices) {
      const long long begin = groups.begin_of(group), end = begin + groups.rows_of(group);
      for (long long row = begin + warp; row < end; row += sum_lanes)
        sum += widened(dy[row * width + column]);
    }
  of_warps[warp][lane] = sum;
  __syncthreads();
  if (warp > 0 || column >= width) return;
  for (int other = 1; other < sum_lanes; ++other) sum += of_warps[other][lane];
  Sum& to = sums[static_cast<long long>(matrix) * width + column];
  narrow(widened(to) + sum, to);
}

void expert_bias_grad(const KernelCall& k) {
  const int width = width_of(k.in_shape(0)[1]);
  const std::int64_t biases = k.out_shape(0)[0];
  const RowGroups groups(k, k.in_shape(0)[0], biases, 1);
  with_type(k.call.inputs[0].dtype, [&]<typename T>(T) {
    with_type(k.call.outputs[0].dtype, [&]<typename Sum>(Sum) {
      launch(expert_bias_grad_kernel<T, Sum>,
             {blocks_for(width, 32), static_cast<unsigned int>(biases)}, {sum_threads}, 0, k.stream,
             k.in<T>(0), k.out<Sum>(0), groups, width);
    });
  });
}

constexpr Row rows[] = {
    {Op::gate_rows, gate_rows},
    {Op::gate_rows_grad, gate_rows_grad},
    {Op::add_expert_bias, add_expert_bias},
    {Op::expert_bias_grad, expert_bias_grad},
};

}  // namespace

std::span<const Row> expert_rows_rows() { return rows; }

}  // namespace meshwright::exec::cuda
