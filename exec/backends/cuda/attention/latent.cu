// Multi-head latent attention: concatenates the two parts of each head, and gives attention values
// of another width than keys (latent.h).
#include "exec/backends/cuda/attention/latent.h"

#include <array>

#include "exec/backends/cuda/device/launch.h"
#include "exec/backends/cuda/device/types.cuh"
#include "exec/backends/cuda/tables.h"
#include "models/program/graph/gpu_scratch.h"

namespace meshwright::exec::cuda {

namespace {

constexpr int threads_of_block = 256;

__device__ inline long long own_element() {
  return static_cast<long long>(blockIdx.x) * threads_of_block + threadIdx.x;
}

// The widths of the two parts of each head. The first part comes from the first tensor. The second
// part comes from the second tensor, and all heads share it if that tensor has one head.
struct Parts {
  int heads, second_heads, first, second;
  explicit Parts(const Attributes& a)
      : heads(a.heads),
        second_heads(a.kv_heads),
        first(a.head_dim - a.rotary_dim),
        second(a.rotary_dim) {}
};

template <typename T>
__global__ void __launch_bounds__(threads_of_block)
    concat_heads_kernel(const T* __restrict__ x, const T* __restrict__ r, T* __restrict__ y,
                        Parts parts, long long elements) {
  const long long i = own_element();
  if (i >= elements) return;
  const int width = parts.first + parts.second, c = static_cast<int>(i % width);
  const long long head = i / width;  // counted over all rows
  if (c < parts.first) {
    y[i] = x[head * parts.first + c];
    return;
  }
  const long long second = parts.second_heads == 1 ? head / parts.heads : head;
  y[i] = r[second * parts.second + c - parts.first];
}

template <typename T>
__global__ void __launch_bounds__(threads_of_block)
    first_part_kernel(const T* __restrict__ dy, T* __restrict__ dx, Parts parts,
                      long long elements) {
  const long long i = own_element();
  if (i >= elements) return;
  dx[i] = dy[i / parts.first * (parts.first + parts.second) + i % parts.first];
}

// Computes the gradient of the second parts: the sum of dy over the heads that share a part.
template <typename T>
__global__ void __launch_bounds__(threads_of_block)
    second_part_kernel(const T* __restrict__ dy, T* __restrict__ dr, Parts parts,
                       long long elements) {
  const long long i = own_element();
  if (i >= elements) return;
  const int shared = parts.heads / parts.second_heads, width = parts.first + parts.second;
  const long long first_head = i / parts.second * shared;
  float sum = 0.0f;
  for (int head = 0; head < shared; ++head)
    sum += widened(dy[(first_head + head) * width + parts.first + i % parts.second]);
  narrow(sum, dr[i]);
}

template <typename T>
__global__ void __launch_bounds__(threads_of_block)
    resize_heads_kernel(const T* __restrict__ from, T* __restrict__ to, int from_dim, int to_dim,
                        long long elements) {
  const long long i = own_element();
  if (i >= elements) return;
  const int c = static_cast<int>(i % to_dim);
  if (c < from_dim)
    to[i] = from[i / to_dim * from_dim + c];
  else
    narrow(0.0f, to[i]);
}

void concat_heads(const KernelCall& k) {
  const long long elements = k.out_shape(0).elements();
  with_type(k.call.inputs[0].dtype, [&]<typename T>(T) {
    launch(concat_heads_kernel<T>, {blocks_for(elements, threads_of_block)}, {threads_of_block}, 0,
           k.stream, k.in<T>(0), k.in<T>(1), k.out<T>(0), Parts(k.attributes()), elements);
  });
}

void concat_heads_grad(const KernelCall& k) {
  const long long first = k.out_shape(0).elements(), second = k.out_shape(1).elements();
  const Parts parts(k.attributes());
  with_type(k.call.inputs[0].dtype, [&]<typename T>(T) {
    launch(first_part_kernel<T>, {blocks_for(first, threads_of_block)}, {threads_of_block}, 0,
           k.stream, k.in<T>(0), k.out<T>(0), parts, first);
    launch(second_part_kernel<T>, {blocks_for(second, threads_of_block)}, {threads_of_block}, 0,
           k.stream, k.in<T>(0), k.out<T>(1), parts, second);
  });
}

void resize_heads(const KernelCall& k, const void* from, int from_dim, void* to,
                  const TensorType& type, int to_dim) {
  const long long elements = type.shape.elements();
  with_type(type.dtype, [&]<typename T>(T) {
    launch(resize_heads_kernel<T>, {blocks_for(elements, threads_of_block)}, {threads_of_block}, 0,
           k.stream, static_cast<const T*>(from), static_cast<T*>(to), from_dim, to_dim, elements);
  });
}

constexpr Row rows[] = {
    {Op::concat_heads, concat_heads},
    {Op::concat_heads_grad, concat_heads_grad},
};

}  // namespace

void with_wide_values(const KernelCall& k, Kernel own) {
  const Attributes& a = k.attributes();
  if (a.value_dim == 0) return own(k);
  const bool forward = k.call.op == Op::attention;
  Attributes attributes = a;
  attributes.value_dim = 0;
  const WideValues wide(k.call);
  std::byte* free = k.workspace<std::byte>() + wide.begin;
  const auto widened_type = [&](const TensorType& narrow_one) {
    TensorType type = narrow_one;
    type.shape[1] = type.shape[1] / a.value_dim * a.head_dim;
    return type;
  };
  const auto take = [&](const TensorType& type) {
    void* const memory = free;
    free += WideValues::rounded_up(type.bytes());
    return memory;
  };
  std::array<TensorType, 7> input_types;
  std::array<const void*, 7> inputs{};
  std::array<TensorType, 3> output_types;
  std::array<void*, 3> outputs{};
  for (std::size_t i = 0; i < k.call.inputs.size(); ++i) {
    input_types[i] = k.call.inputs[i];
    inputs[i] = k.operands.inputs[i];
    if (i != 2 && (forward || (i != 3 && i != 5))) continue;  // v; y and dy
    input_types[i] = widened_type(k.call.inputs[i]);
    void* const memory = take(input_types[i]);
    resize_heads(k, inputs[i], a.value_dim, memory, input_types[i], a.head_dim);
    inputs[i] = memory;
  }
  const std::size_t result = forward ? 0 : 2;  // y or dv
  for (std::size_t i = 0; i < k.call.outputs.size(); ++i) {
    output_types[i] = k.call.outputs[i];
    outputs[i] = k.operands.outputs[i];
  }
  output_types[result] = widened_type(k.call.outputs[result]);
  outputs[result] = take(output_types[result]);
  const OpCall call{k.call.op, attributes, std::span(input_types).first(k.call.inputs.size()),
                    std::span(output_types).first(k.call.outputs.size())};
  const OpOperands operands{std::span(inputs).first(k.call.inputs.size()),
                            std::span(outputs).first(k.call.outputs.size())};
  own({call, operands, k.context, k.device, k.first_sequence, k.stream});
  resize_heads(k, outputs[result], a.head_dim, k.operands.outputs[result], k.call.outputs[result],
               a.value_dim);
}

std::span<const Row> latent_rows() { return rows; }

}  // namespace meshwright::exec::cuda
