#include "exec/backends/cuda/loss/loss_with_grad.h"

#include "exec/backends/cuda/loss/vocabulary.cuh"
#include "exec/backends/cuda/rows/softmax.cuh"

namespace meshwright::exec::cuda {

namespace {

// With this number of threads, two blocks can share a multiprocessor if its shared memory holds two
// rows, so that one block can read while the other writes.
constexpr int row_threads = block_of_row;

template <typename T>
__global__ void __launch_bounds__(row_threads, 2)
    loss_with_grad_kernel(const T* logits, const int* __restrict__ targets,
                          float* __restrict__ loss, float* __restrict__ saved,
                          const float* __restrict__ loss_scale, float scale, T* d_logits,
                          Columns columns) {
  constexpr int n = vector_of<T>;
  using Group = Chunk<T, n>;
  T* kept = reinterpret_cast<T*>(shared_memory());
  const long long row = blockIdx.x;
  const T* own = logits + row * columns.width;
  const bool ignored = targets[row] == ignored_target;
  const int target = columns.of(targets[row]);
  // The target's logit is read before any thread overwrites it with the gradient.
  const float target_logit = ignored ? 0.0f : logit_of(own, target);
  const auto keep = [&](int c, const Group& group) { *reinterpret_cast<Group*>(kept + c) = group; };
  const ExpSum all = both_over_row<row_threads>(
      exp_sum_of_groups<row_threads, n, 4>(own, columns.visible, columns.width, keep));
  const float log_sum = all.maximum + logf(all.sum);
  if (threadIdx.x == 0) {
    saved[row] = ignored ? 0.0f : log_sum;
    loss[row] = ignored ? 0.0f : log_sum - target_logit;
  }
  const float factor = ignored ? 0.0f : loss_scale == nullptr ? scale : scale * loss_scale[0];
  T* to = d_logits + row * columns.width;
  // Each thread reads only what it wrote to shared memory itself, so no barrier is needed.
  for_columns<row_threads, n>(columns.width, true, [&](int c, auto count) {
    constexpr int moved = decltype(count)::value;
    float x[moved];
    load<moved>(kept + c, x);
#pragma unroll
    for (int j = 0; j < moved; ++j) x[j] = columns.gradient(c + j, x[j], log_sum, factor, target);
    store<moved>(to + c, x);
  });
}

}  // namespace

bool cross_entropy_with_grad(const KernelCall& loss, const KernelCall& gradient) {
  constexpr std::int64_t other_shared_bytes = 1024;
  const Columns columns(loss);
  const TensorType& type = loss.call.inputs[0];
  const bool together = loss.call.op == Op::cross_entropy &&
                        gradient.call.op == Op::cross_entropy_grad &&
                        loss.operands.inputs[0] == gradient.operands.inputs[0] &&
                        loss.operands.inputs[1] == gradient.operands.inputs[2] &&
                        loss.operands.outputs[1] == gradient.operands.inputs[1] &&
                        loss.attributes().vocabulary == gradient.attributes().vocabulary &&
                        !gradient.attributes().vocabulary_parallel;
  const std::int64_t row_bytes = columns.width * bytes_of(type.dtype);
  if (!together || columns.width <= longest_row_of_warp ||
      row_bytes + other_shared_bytes > loss.device.shared_bytes)
    return false;
  bool issued = false;
  with_type(type.dtype, [&]<typename T>(T) {
    constexpr int n = vector_of<T>;
    if (!moves_groups<n>(loss.in<T>(0), columns.width) ||
        !moves_groups<n>(gradient.out<T>(0), columns.width))
      return;
    launch(loss_with_grad_kernel<T>, {blocks_for(type.shape[0], 1)}, {row_threads}, row_bytes,
           loss.stream, loss.in<T>(0), loss.in<int>(1), loss.out<float>(0), loss.out<float>(1),
           loss_scale_of(gradient), static_cast<float>(gradient.attributes().scale),
           gradient.out<T>(0), columns);
    issued = true;
  });
  return issued;
}

}  // namespace meshwright::exec::cuda
