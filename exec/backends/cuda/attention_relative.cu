#include "exec/backends/cuda/attention_relative.h"

namespace meshwright::cuda {

namespace {

constexpr int threads = 256;

// models/graph/relative.h's function. Its fp32 logarithm is made by way of a double, so that no
// place of the scale depends on whose it is.
__device__ int bucket_of(int distance, int all_buckets, int farthest, bool causal) {
  const int buckets = causal ? all_buckets : all_buckets / 2;
  const int first = !causal && distance > 0 ? buckets : 0;
  const int away = causal ? max(-distance, 0) : distance < 0 ? -distance : distance;
  const int exact = buckets / 2;
  if (away < exact) return first + away;
  if (away >= farthest) return first + buckets - 1;
  const float whole = static_cast<float>(log(static_cast<double>(farthest) / exact));
  const float part = static_cast<float>(away) / static_cast<float>(exact);
  const float ratio = static_cast<float>(log(static_cast<double>(part))) / whole;
  return first +
         min(exact + static_cast<int>(ratio * static_cast<float>(buckets - exact)), buckets - 1);
}

// A thread for each distance.
template <typename T>
__global__ void __launch_bounds__(threads)
    relative_bias(int* buckets, float* bias, const T* table, int held, int heads, int all_buckets,
                  int farthest, bool causal) {
  const int distances = 2 * held - 1;
  const int d = static_cast<int>(blockIdx.x) * threads + static_cast<int>(threadIdx.x);
  if (d >= distances) return;
  const int bucket = bucket_of(d - (held - 1), all_buckets, farthest, causal);
  buckets[d] = bucket;
  for (int head = 0; head < heads; ++head)
    bias[static_cast<long long>(head) * distances + d] =
        widened(table[static_cast<long long>(bucket) * heads + head]) * log2_e;
}

// A thread for each distance of a head (blockIdx.y): over sequences and blocks of queries in order.
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

// A block for each bucket (x) and head (y).
__global__ void __launch_bounds__(threads)
    sum_buckets(const float* sums, const int* buckets, float* table, int distances, int heads) {
  const int bucket = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y);
  float sum[1] = {};
  for (int d = static_cast<int>(threadIdx.x); d < distances; d += threads)
    if (buckets[d] == bucket) sum[0] += sums[static_cast<long long>(head) * distances + d];
  add_over_row<threads>(sum);
  if (threadIdx.x == 0) table[static_cast<long long>(bucket) * heads + head] += sum[0];
}

}  // namespace

std::int64_t relative_bias_bytes(const Attributes& a) {
  return distances_of(a) * (1 + a.heads) * 4;
}

const float* make_relative_bias(const KernelCall& k, const void* table, Dtype dtype, void* memory) {
  const Attributes& a = k.attributes();
  int* const buckets = static_cast<int*>(memory);
  float* const bias = reinterpret_cast<float*>(buckets + distances_of(a));
  with_type(dtype, [&](auto element) {
    using T = decltype(element);
    launch(relative_bias<T>, {blocks_for(distances_of(a), threads)}, {threads}, 0, k.stream,
           buckets, bias, static_cast<const T*>(table), a.sequence_length, a.heads,
           a.relative_buckets, a.relative_distance, a.causal);
  });
  return bias;
}

void add_relative_gradient(const KernelCall& k, const float* of_blocks, int rows, float* sums,
                           const int* buckets, float* table) {
  const Attributes& a = k.attributes();
  const auto heads = static_cast<unsigned int>(a.heads);
  launch(sum_distances, {blocks_for(distances_of(a), threads), heads}, {threads}, 0, k.stream,
         of_blocks, sums, a.micro_batch, a.heads, a.sequence_length, rows);
  launch(sum_buckets, {static_cast<unsigned int>(a.relative_buckets), heads}, {threads}, 0,
         k.stream, static_cast<const float*>(sums), buckets, table,
         static_cast<int>(distances_of(a)), a.heads);
}

}  // namespace meshwright::cuda
