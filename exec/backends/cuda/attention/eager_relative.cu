// Adds biases by relative position to scores, and computes the gradient of the table that has the
// biases (models/program/graph/relative.h).
#include "exec/backends/cuda/attention/relative.cuh"
#include "exec/backends/cuda/attention/score_rows.cuh"
#include "exec/backends/cuda/rows/wide_rows.cuh"
#include "exec/backends/cuda/tables.h"

namespace meshwright::exec::cuda {

namespace {

// The bias of each head at distances from -most to most. Greater distances are in the last bucket
// of their direction.
struct Bias {
  float* of_heads;
  int most;
  explicit Bias(const KernelCall& k)
      : of_heads(k.workspace<float>()), most(k.attributes().relative_distance) {}
  __host__ __device__ int distances() const { return 2 * most + 1; }
};

template <typename T>
__global__ void __launch_bounds__(256)
    look_up_kernel(const T* __restrict__ table, Bias bias, RelativeBuckets buckets, int heads) {
  const int index = static_cast<int>(blockIdx.x * 256 + threadIdx.x);
  if (index >= bias.distances()) return;
  const int head = static_cast<int>(blockIdx.y), bucket = buckets.of(index - bias.most);
  bias.of_heads[static_cast<long long>(head) * bias.distances() + index] =
      widened(table[static_cast<long long>(bucket) * heads + head]);
}

struct AddBias {
  ScoreRows rows;
  Bias bias;
  struct OfRow {
    const float* of_distance_0;
    int query;
  };
  __device__ OfRow of_row(long long row) const {
    return {bias.of_heads + static_cast<long long>(rows.head(row)) * bias.distances() + bias.most,
            rows.query(row)};
  }
  template <int n>
  __device__ void apply(const OfRow& row, int key, float (&x)[n]) const {
#pragma unroll
    for (int j = 0; j < n; ++j)
      x[j] += row.of_distance_0[max(-bias.most, min(key + j - row.query, bias.most))];
  }
};

void add_relative_bias(const KernelCall& k) {
  const Attributes& a = k.attributes();
  const Bias bias(k);
  with_type(k.call.inputs[0].dtype, [&]<typename T>(T) {
    launch(look_up_kernel<T>,
           {blocks_for(bias.distances(), 256), static_cast<unsigned int>(a.heads)}, {256}, 0,
           k.stream, k.in<T>(1), bias, RelativeBuckets(a), a.heads);
    map_rows(k, AddBias{ScoreRows(k), bias}, k.in<T>(0));
  });
}

// A block of threads has up to strip_rows rows of the scores of one head of one sequence.
constexpr int strip_rows = relative_strip_rows, strip_threads = 256;

int strips_of_head(const Attributes& a) {
  return (a.sequence_length + strip_rows - 1) / strip_rows;
}

// Sums the gradients of a strip of scores, first by distance, then by bucket, into `partial`.
template <typename T>
__global__ void __launch_bounds__(strip_threads)
    sum_strip_kernel(const T* __restrict__ gradients, float* __restrict__ partial,
                     RelativeBuckets buckets, int all_buckets, int strips, int length) {
  float* of_distance = reinterpret_cast<float*>(shared_memory());
  const int thread = static_cast<int>(threadIdx.x), strip = static_cast<int>(blockIdx.x) % strips;
  const long long matrix = blockIdx.x / strips;
  const int begin = strip * strip_rows, end = min(begin + strip_rows, length);
  const int nearest = 1 - end, distances = length + end - begin - 1;  // of key - query
  const T* own = gradients + matrix * length * length;
  for (int i = thread; i < distances; i += strip_threads) {
    const int distance = nearest + i;
    float sum = 0;
    for (int query = max(begin, -distance); query < min(end, length - distance); ++query)
      sum += widened(own[static_cast<long long>(query) * length + query + distance]);
    of_distance[i] = sum;
  }
  __syncthreads();
  for (int bucket = thread / 32; bucket < all_buckets; bucket += strip_threads / 32) {
    const RelativeBuckets::Range range = buckets.range(bucket);
    const int first = max(range.begin, nearest), past = min(range.end, nearest + distances);
    float sum[1] = {0.0f};
    for (int distance = first + thread % 32; distance < past; distance += 32)
      sum[0] += of_distance[distance - nearest];
    add_over_row<32>(sum);
    if (thread % 32 == 0)
      partial[static_cast<long long>(blockIdx.x) * all_buckets + bucket] = sum[0];
  }
}

template <typename To>
__global__ void __launch_bounds__(256)
    add_to_table_kernel(const float* __restrict__ partial, To* __restrict__ table, int all_buckets,
                        int heads, int sequences, int strips) {
  const int index = static_cast<int>(blockIdx.x * 256 + threadIdx.x);
  if (index >= all_buckets * heads) return;
  const int bucket = index / heads, head = index % heads;
  float sum = 0;
  for (int sequence = 0; sequence < sequences; ++sequence)
    for (int strip = 0; strip < strips; ++strip) {
      const long long block = (static_cast<long long>(sequence) * heads + head) * strips + strip;
      sum += partial[block * all_buckets + bucket];
    }
  narrow(widened(table[index]) + sum, table[index]);
}

void relative_bias_grad(const KernelCall& k) {
  const Attributes& a = k.attributes();
  const int strips = strips_of_head(a), length = a.sequence_length;
  const RelativeBuckets buckets(a);
  with_type(k.call.inputs[0].dtype, [&]<typename T>(T) {
    launch(sum_strip_kernel<T>, {blocks_for(k.in_shape(0)[0] * strips, 1)}, {strip_threads},
           (length + strip_rows) * static_cast<std::int64_t>(sizeof(float)), k.stream, k.in<T>(0),
           k.workspace<float>(), buckets, buckets.all(), strips, length);
  });
  with_type(k.call.outputs[0].dtype, [&]<typename To>(To) {
    launch(add_to_table_kernel<To>, {blocks_for(std::int64_t{buckets.all()} * a.heads, 256)}, {256},
           0, k.stream, k.workspace<float>(), k.out<To>(0), buckets.all(), a.heads, a.micro_batch,
           strips);
  });
}

constexpr Row rows[] = {
    {Op::add_relative_bias, add_relative_bias},
    {Op::relative_bias_grad, relative_bias_grad},
};

}  // namespace

std::span<const Row> eager_relative_rows() { return rows; }

}  // namespace meshwright::exec::cuda
