// Activation functions, which work element by element, and their gradients.
#include "exec/backends/cuda/rows/map.cuh"
#include "exec/backends/cuda/tables.h"

namespace meshwright::exec::cuda {

namespace {

struct GeluTanh : Elementwise<1> {
  __device__ void operator()(const float* x, float* y) const { y[0] = gelu_tanh(x[0]); }
};
struct GeluErf : Elementwise<1> {
  __device__ void operator()(const float* x, float* y) const { y[0] = gelu_erf(x[0]); }
};
struct GeluTanhGrad : Elementwise<2> {
  __device__ void operator()(const float* x, float* y) const {
    y[0] = x[1] * gelu_tanh_slope(x[0]);
  }
};
struct GeluErfGrad : Elementwise<2> {
  __device__ void operator()(const float* x, float* y) const { y[0] = x[1] * gelu_erf_slope(x[0]); }
};
struct Relu : Elementwise<1> {
  __device__ void operator()(const float* x, float* y) const {
    y[0] = x[0] < 0.0f ? 0.0f : x[0];  // a NaN stays a NaN
  }
};
struct ReluGrad : Elementwise<2> {
  __device__ void operator()(const float* x, float* y) const { y[0] = x[0] > 0.0f ? x[1] : 0.0f; }
};
struct SquaredRelu : Elementwise<1> {
  __device__ void operator()(const float* x, float* y) const {
    y[0] = x[0] < 0.0f ? 0.0f : x[0] * x[0];
  }
};
struct SquaredReluGrad : Elementwise<2> {
  __device__ void operator()(const float* x, float* y) const {
    y[0] = x[0] > 0.0f ? 2.0f * x[0] * x[1] : 0.0f;
  }
};
struct Tanh : Elementwise<1> {
  __device__ void operator()(const float* x, float* y) const { y[0] = tanhf(x[0]); }
};
struct TanhGrad : Elementwise<2> {
  __device__ void operator()(const float* x, float* y) const { y[0] = x[1] * (1.0f - x[0] * x[0]); }
};
struct Swiglu : Elementwise<2> {
  __device__ void operator()(const float* x, float* y) const { y[0] = silu(x[0]) * x[1]; }
};
struct SwigluGrad : Elementwise<3, 2> {
  __device__ void operator()(const float* x, float* y) const {
    y[0] = x[2] * x[1] * silu_slope(x[0]);
    y[1] = x[2] * silu(x[0]);
  }
};

// The values that clamped SwiGLU and its gradient share. op.h has the formula, in which alpha is
// 1.702.
struct Clamped {
  float g, u1, s;  // clamped gate; clamped up, plus 1; sigmoid(alpha * g)
  bool gate_moves, up_moves;
  static constexpr float alpha = 1.702f;
  __device__ Clamped(float gate, float up, float limit)
      : g(gate > limit ? limit : gate),
        u1((up > limit    ? limit
            : up < -limit ? -limit
                          : up) +
           1.0f),
        s(sigmoid(alpha * g)),
        gate_moves(!(gate > limit)),
        up_moves(!(up > limit || up < -limit)) {}
};
struct ClampedSwiglu : Elementwise<2> {
  float limit = 0;
  __device__ void operator()(const float* x, float* y) const {
    const Clamped c(x[0], x[1], limit);
    y[0] = c.g * c.s * c.u1;
  }
};
struct ClampedSwigluGrad : Elementwise<3, 2> {
  float limit = 0;
  __device__ void operator()(const float* x, float* y) const {
    const Clamped c(x[0], x[1], limit);
    const float slope = c.s + Clamped::alpha * c.g * c.s * (1.0f - c.s);
    y[0] = c.gate_moves ? x[2] * c.u1 * slope : 0.0f;
    y[1] = c.up_moves ? x[2] * c.g * c.s : 0.0f;
  }
};

template <typename F>
void clamped(const KernelCall& k) {
  F f;
  f.limit = static_cast<float>(k.attributes().swiglu_limit);
  map(k, f);
}

void gelu(const KernelCall& k) {
  k.attributes().gelu_tanh ? map(k, GeluTanh{}) : map(k, GeluErf{});
}
void gelu_grad(const KernelCall& k) {
  k.attributes().gelu_tanh ? map(k, GeluTanhGrad{}) : map(k, GeluErfGrad{});
}

template <typename F>
void elementwise(const KernelCall& k) {
  map(k, F{});
}

constexpr Row rows[] = {
    {Op::gelu, gelu},
    {Op::gelu_grad, gelu_grad},
    {Op::relu, elementwise<Relu>},
    {Op::relu_grad, elementwise<ReluGrad>},
    {Op::squared_relu, elementwise<SquaredRelu>},
    {Op::squared_relu_grad, elementwise<SquaredReluGrad>},
    {Op::tanh, elementwise<Tanh>},
    {Op::tanh_grad, elementwise<TanhGrad>},
    {Op::swiglu, elementwise<Swiglu>},
    {Op::swiglu_grad, elementwise<SwigluGrad>},
    {Op::clamped_swiglu, clamped<ClampedSwiglu>},
    {Op::clamped_swiglu_grad, clamped<ClampedSwigluGrad>},
};

}  // namespace

std::span<const Row> activation_rows() { return rows; }

}  // namespace meshwright::exec::cuda
