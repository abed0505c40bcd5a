// The elementwise operations of an eager framework, which computes the tanh form of GELU and SwiGLU
// by several of them.
#include "exec/backends/cuda/rows/map.cuh"
#include "exec/backends/cuda/tables.h"

namespace meshwright::exec::cuda {

namespace {

struct Scale : Elementwise<1> {
  float factor;
  __device__ void operator()(const float* x, float* y) const { y[0] = factor * x[0]; }
};
struct AddConstant : Elementwise<1> {
  float constant;
  __device__ void operator()(const float* x, float* y) const { y[0] = x[0] + constant; }
};
struct Cube : Elementwise<1> {
  __device__ void operator()(const float* x, float* y) const { y[0] = x[0] * x[0] * x[0]; }
};
struct CubeGrad : Elementwise<2> {
  __device__ void operator()(const float* x, float* y) const { y[0] = 3.0f * x[0] * x[0] * x[1]; }
};
struct Multiply : Elementwise<2> {
  __device__ void operator()(const float* x, float* y) const { y[0] = x[0] * x[1]; }
};
struct Silu : Elementwise<1> {
  __device__ void operator()(const float* x, float* y) const { y[0] = silu(x[0]); }
};
struct SiluGrad : Elementwise<2> {
  __device__ void operator()(const float* x, float* y) const { y[0] = x[1] * silu_slope(x[0]); }
};

template <typename F>
void elementwise(const KernelCall& k) {
  map(k, F{});
}
// Runs an operation whose constant is the attribute `factor`.
template <typename F>
void with_factor(const KernelCall& k) {
  map(k, F{{}, static_cast<float>(k.attributes().factor)});
}

constexpr Row rows[] = {
    {Op::scale, with_factor<Scale>},        {Op::add_constant, with_factor<AddConstant>},
    {Op::cube, elementwise<Cube>},          {Op::cube_grad, elementwise<CubeGrad>},
    {Op::multiply, elementwise<Multiply>},  {Op::silu, elementwise<Silu>},
    {Op::silu_grad, elementwise<SiluGrad>},
};

}  // namespace

std::span<const Row> eager_elementwise_rows() { return rows; }

}  // namespace meshwright::exec::cuda
