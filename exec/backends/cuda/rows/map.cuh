// Applies functions element by element. A thread moves 16 bytes of each operand at once, except at
// the end of the operands.
#pragma once

#include "exec/backends/cuda/device/launch.h"
#include "exec/backends/cuda/device/types.cuh"
#include "exec/backends/cuda/kernels.h"

namespace meshwright::exec::cuda {

// Base of the functions that kernels apply element by element, with the numbers of their inputs and
// outputs.
template <int in, int out = 1>
struct Elementwise {
  static constexpr int inputs = in, outputs = out;
};

// The addresses of the operands of a function F. F::inputs and F::outputs are the numbers of
// operands, and f(x, y) computes y[0, outputs) from x[0, inputs).
template <typename F, typename T>
struct MapOperands {
  const T* in[F::inputs];
  T* out[F::outputs];
};

constexpr int map_threads = 256;

template <int n, typename F, typename T>
__device__ inline void map_elements(const F& f, const MapOperands<F, T>& operands,
                                    long long first) {
  float x[F::inputs][n], y[F::outputs][n];
#pragma unroll
  for (int i = 0; i < F::inputs; ++i) load<n>(operands.in[i] + first, x[i]);
#pragma unroll
  for (int j = 0; j < n; ++j) {
    float of_element[F::inputs], made[F::outputs];
#pragma unroll
    for (int i = 0; i < F::inputs; ++i) of_element[i] = x[i][j];
    f(of_element, made);
#pragma unroll
    for (int o = 0; o < F::outputs; ++o) y[o][j] = made[o];
  }
#pragma unroll
  for (int o = 0; o < F::outputs; ++o) store<n>(operands.out[o] + first, y[o]);
}

template <typename F, typename T>
__global__ void __launch_bounds__(map_threads)
    map_kernel(F f, MapOperands<F, T> operands, long long count) {
  constexpr int vector = vector_of<T>;
  const long long first = (static_cast<long long>(blockIdx.x) * map_threads + threadIdx.x) * vector;
  if (first + vector <= count) {
    map_elements<vector>(f, operands, first);
  } else {
    for (long long i = first; i < count; ++i) map_elements<1>(f, operands, i);
  }
}

// Applies f to all elements. Every operand must have the first input's number of elements and type.
template <typename F>
void map(const KernelCall& k, F f) {
  const TensorType& type = k.call.inputs[0];
  const std::int64_t count = type.shape.elements();
  with_type(type.dtype, [&]<typename T>(T) {
    MapOperands<F, T> operands;
    for (int i = 0; i < F::inputs; ++i) operands.in[i] = k.in<T>(i);
    for (int o = 0; o < F::outputs; ++o) operands.out[o] = k.out<T>(o);
    launch(map_kernel<F, T>, {blocks_for(count, map_threads * vector_of<T>)}, {map_threads}, 0,
           k.stream, f, operands, count);
  });
}

}  // namespace meshwright::exec::cuda
