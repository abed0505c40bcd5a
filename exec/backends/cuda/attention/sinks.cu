#include "exec/backends/cuda/attention/sinks.h"

#include "exec/backends/cuda/rows/wide_rows.cuh"
#include "models/program/graph/context.h"

namespace meshwright::exec::cuda {

namespace {

constexpr int warps_of_block = 4;

// Adds a sink to the softmax of each head of a token: scales y and updates the log-sum-exp. Each
// warp has one head of one token.
template <typename T>
__global__ void __launch_bounds__(32 * warps_of_block)
    sinks_kernel(T* y, float* log_sums, const T* sinks, long long tokens, int heads, int dim,
                 int length) {
  const long long place = static_cast<long long>(blockIdx.x) * warps_of_block + threadIdx.x / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (place >= tokens * heads) return;  // warps return as a whole
  const long long token = place / heads;
  const int head = static_cast<int>(place % heads);
  const long long row = (token / length * heads + head) * length + token % length;
  const float before = log_sums[row], sink = widened(sinks[head]);
  const float most = fmaxf(before, sink);
  const float after = most + logf(expf(before - most) + expf(sink - most));
  const float share = expf(before - after);
  T* const own = y + token * heads * dim + static_cast<long long>(head) * dim;
  for (int c = lane; c < dim; c += 32) narrow(widened(own[c]) * share, own[c]);
  // All lanes must have read the log-sum-exp before lane 0 overwrites it.
  __syncwarp();
  if (lane == 0) log_sums[row] = after;
}

// Adds to the gradient of each head's sink. Each block has one head.
template <typename T, typename Sum>
__global__ void __launch_bounds__(block_of_row)
    sink_gradients_kernel(const T* y, const T* dy, const float* log_sums, const T* sinks, Sum* sums,
                          long long tokens, int heads, int dim, int length) {
  const int lane = static_cast<int>(threadIdx.x) % 32, head = static_cast<int>(blockIdx.x);
  const float sink = widened(sinks[head]);
  float sum = 0;
  for (long long token = threadIdx.x / 32; token < tokens; token += block_of_row / 32) {
    const long long row = (token / length * heads + head) * length + token % length;
    const float share = expf(sink - log_sums[row]);
    const long long begin = (token * heads + head) * dim;
    float dot = 0;
    for (int c = lane; c < dim; c += 32) dot += widened(y[begin + c]) * widened(dy[begin + c]);
    sum -= share * dot;
  }
  sum = sum_over_row<block_of_row>(sum);
  if (threadIdx.x == 0) narrow(widened(sums[head]) + sum, sums[head]);
}

}  // namespace

void apply_sinks(const KernelCall& k, std::size_t tensors) {
  const Attributes& a = k.attributes();
  const long long tokens = static_cast<long long>(a.micro_batch) * a.sequence_length;
  with_type(k.call.inputs[0].dtype, [&]<typename T>(T) {
    launch(sinks_kernel<T>, {blocks_for(tokens * a.heads, warps_of_block)}, {32 * warps_of_block},
           0, k.stream, k.out<T>(0), k.out<float>(1),
           k.in<T>(tensors) + first_own_head(a, k.context.context_rank), tokens, a.heads,
           a.head_dim, a.sequence_length);
  });
}

void add_sink_gradients(const KernelCall& k, std::size_t tensors) {
  const Attributes& a = k.attributes();
  if (k.call.outputs.size() == tensors) return;
  const long long tokens = static_cast<long long>(a.micro_batch) * a.sequence_length;
  const std::int64_t first = first_own_head(a, k.context.context_rank);
  with_type(k.call.inputs[0].dtype, [&]<typename T>(T) {
    with_type(k.call.outputs[tensors].dtype, [&]<typename Sum>(Sum) {
      launch(sink_gradients_kernel<T, Sum>, {static_cast<unsigned int>(a.heads)}, {block_of_row}, 0,
             k.stream, k.in<T>(tensors), k.in<T>(tensors + 2), k.in<float>(tensors + 1),
             k.in<T>(tensors + 3) + first, k.out<Sum>(tensors) + first, tokens, a.heads, a.head_dim,
             a.sequence_length);
    });
  });
}

}  // namespace meshwright::exec::cuda
