#include "exec/backends/cuda/attention/attention_relative.h"

#include "exec/backends/cuda/attention/relative.cuh"

namespace meshwright::exec::cuda {

namespace {

constexpr int threads = 256;

// Writes the bias for each distance of a head, in base 2. Each thread has one distance, and
// blockIdx.y is the head.
template <typename T>
__global__ void __launch_bounds__(threads)
    relative_bias(float* bias, const T* table, RelativeBuckets buckets, int farthest, int heads) {
  const int distances = 2 * farthest + 1, head = static_cast<int>(blockIdx.y);
  const int d = static_cast<int>(blockIdx.x) * threads + static_cast<int>(threadIdx.x);
  if (d >= distances) return;
  const long long place = static_cast<long long>(buckets.of(d - farthest)) * heads + head;
  bias[static_cast<long long>(head) * distances + d] = widened(table[place]) * log2_e;
}

// Adds up the sums of all sequences and blocks of queries, in order, for each distance of each
// head. Each thread has one distance, and blockIdx.y is the head.
__global__ void __launch_bounds__(threads)
    sum_distances(const float* of_blocks, float* sums, int batch, int heads, int held, int rows) {
  const int distances = 2 * held - 1, blocks = (held + rows - 1) / rows, each = held + rows - 1;
  const int d = static_cast<int>(blockIdx.x) * threads + static_cast<int>(threadIdx.x);
  const int head = static_cast<int>(blockIdx.y);
  if (d >= distances) return;
  float sum = 0.0f;
  for (int sequence = 0; sequence < batch; ++sequence)
    for (int block = 0; block < blocks; ++block) {
      const int place = d - (held - 1) + block * rows + rows - 1;
      if (place >= 0 && place < each)
        sum +=
            of_blocks[((static_cast<long long>(sequence) * heads + head) * blocks + block) * each +
                      place];
    }
  sums[static_cast<long long>(head) * distances + d] = sum;
}

// Adds the sums over the distances of a bucket to the table's gradient. Each block has one bucket
// (blockIdx.x) of one head (blockIdx.y).
template <typename T>
__global__ void __launch_bounds__(threads)
    sum_buckets(const float* sums, RelativeBuckets buckets, T* table, int held, int heads) {
  const int bucket = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y);
  const RelativeBuckets::Range range = buckets.range(bucket);
  const float* const of_distance_0 = sums + head * (2LL * held - 1) + held - 1;
  float sum[1] = {};
  for (int d = max(range.begin, 1 - held) + static_cast<int>(threadIdx.x); d < min(range.end, held);
       d += threads)
    sum[0] += of_distance_0[d];
  add_over_row<threads>(sum);
  if (threadIdx.x != 0) return;
  T& element = table[static_cast<long long>(bucket) * heads + head];
  narrow(widened(element) + sum[0], element);
}

}  // namespace

const float* make_relative_bias(const KernelCall& k, const void* table, Dtype dtype, void* memory) {
  const Attributes& a = k.attributes();
  float* const bias = static_cast<float*>(memory);
  with_type(dtype, [&]<typename T>(T) {
    launch(relative_bias<T>,
           {blocks_for(2 * a.relative_distance + 1, threads), static_cast<unsigned int>(a.heads)},
           {threads}, 0, k.stream, bias, static_cast<const T*>(table), RelativeBuckets(a),
           a.relative_distance, a.heads);
  });
  return bias;
}

void add_relative_gradient(const KernelCall& k, const float* of_blocks, int rows, float* sums,
                           void* table, Dtype dtype) {
  const Attributes& a = k.attributes();
  const auto heads = static_cast<unsigned int>(a.heads);
  launch(sum_distances, {blocks_for(2 * a.sequence_length - 1, threads), heads}, {threads}, 0,
         k.stream, of_blocks, sums, a.micro_batch, a.heads, a.sequence_length, rows);
  with_type(dtype, [&]<typename T>(T) {
    const RelativeBuckets buckets(a);
    launch(sum_buckets<T>, {static_cast<unsigned int>(buckets.all()), heads}, {threads}, 0,
           k.stream, static_cast<const float*>(sums), buckets, static_cast<T*>(table),
           a.sequence_length, a.heads);
  });
}

}  // namespace meshwright::exec::cuda
