// Activation functions, which work element by element, and their gradients.
#include "exec/backends/cpu/map.h"
#include "exec/backends/cpu/math.h"
#include "exec/backends/cpu/tables.h"

namespace meshwright::exec::cpu {

namespace {

// The tanh form is x (1 + tanh u) / 2 = x sigmoid(2u) with u = sqrt(2/pi) (x + 0.044715 x^3).
constexpr double twice_root = 2 * 0.79788456080286535588, cubic = 0.044715;

template <typename T>
T twice_u(T x) {
  return x * (T(twice_root) + T(twice_root * cubic) * x * x);
}

}  // namespace

template <typename T>
void gelu(const KernelCall& k) {
  if (k.attributes().gelu_tanh)
    map<T>(k, [](T x) { return x * sigmoid(twice_u(x)); });
  else
    map<T>(k, [](T x) { return x * normal_cdf(x); });
}

template <typename T>
void gelu_grad(const KernelCall& k) {
  if (k.attributes().gelu_tanh)
    map_two<T>(k, [](T x, T dy) {
      const T s = sigmoid(twice_u(x));
      const T slope = T(twice_root) + T(3 * twice_root * cubic) * x * x;
      return dy * (s + x * s * (T(1) - s) * slope);
    });
  else
    map_two<T>(k, [](T x, T dy) { return dy * (normal_cdf(x) + x * normal_density(x)); });
}

template <typename T>
void relu(const KernelCall& k) {
  map<T>(k, [](T x) { return x < T(0) ? T(0) : x; });  // keeps a NaN
}

template <typename T>
void relu_grad(const KernelCall& k) {
  map_two<T>(k, [](T x, T dy) { return x > T(0) ? dy : T(0); });
}

template <typename T>
void squared_relu(const KernelCall& k) {
  map<T>(k, [](T x) { return x < T(0) ? T(0) : x * x; });
}

template <typename T>
void squared_relu_grad(const KernelCall& k) {
  map_two<T>(k, [](T x, T dy) { return x > T(0) ? T(2) * x * dy : T(0); });
}

template <typename T>
void tanh(const KernelCall& k) {
  map<T>(k, [](T x) { return tanh_of(x); });
}

template <typename T>
void tanh_grad(const KernelCall& k) {
  map_two<T>(k, [](T y, T dy) { return dy * (T(1) - y * y); });
}

template <typename T>
void swiglu(const KernelCall& k) {
  map_two<T>(k, [](T gate, T up) { return gate * sigmoid(gate) * up; });
}

template <typename T>
void swiglu_grad(const KernelCall& k) {
  const T* gate = k.in<T>(0);
  const T* up = k.in<T>(1);
  const T* dy = k.in<T>(2);
  T* d_gate = k.out<T>(0);
  T* d_up = k.out<T>(1);
  parallel_for(k.pool, k.in_shape(0).elements(), elements_per_piece,
               [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
                 for (std::int64_t i = begin; i < end; ++i) {
                   const T s = sigmoid(gate[i]), d = dy[i];
                   const T silu = gate[i] * s;
                   d_gate[i] = d * up[i] * (s + silu * (T(1) - s));
                   d_up[i] = d * silu;
                 }
               });
}

namespace {

// Computes what a clamped gate and its gradient share: the clamped inputs, the sigmoid, and whether
// each input is inside its limits, so that it has a gradient. alpha = 1.702 is the published
// constant.
template <typename T>
struct ClampedGate {
  static constexpr T alpha = T(1.702);
  T g, u1, s;  // the gate, clamped; the other input, clamped, plus 1; sigmoid(alpha g)
  bool gate_moves, up_moves;
  ClampedGate(T gate, T up, T limit)
      : g(gate > limit ? limit : gate),
        u1((up > limit    ? limit
            : up < -limit ? -limit
                          : up) +
           T(1)),
        s(sigmoid(alpha * g)),
        gate_moves(!(gate > limit)),
        up_moves(!(up > limit || up < -limit)) {}
};

}  // namespace

template <typename T>
void clamped_swiglu(const KernelCall& k) {
  const T limit = static_cast<T>(k.attributes().swiglu_limit);
  map_two<T>(k, [=](T gate, T up) {
    const ClampedGate<T> c(gate, up, limit);
    return c.g * c.s * c.u1;
  });
}

template <typename T>
void clamped_swiglu_grad(const KernelCall& k) {
  const T limit = static_cast<T>(k.attributes().swiglu_limit);
  const T* gate = k.in<T>(0);
  const T* up = k.in<T>(1);
  const T* dy = k.in<T>(2);
  T* d_gate = k.out<T>(0);
  T* d_up = k.out<T>(1);
  parallel_for(k.pool, k.in_shape(0).elements(), elements_per_piece,
               [=](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const ClampedGate<T> c(gate[i], up[i], limit);
                   const T slope = c.s + ClampedGate<T>::alpha * c.g * c.s * (T(1) - c.s);
                   d_gate[i] = c.gate_moves ? dy[i] * c.u1 * slope : T(0);
                   d_up[i] = c.up_moves ? dy[i] * c.g * c.s : T(0);
                 }
               });
}

constexpr Row rows[] = {
    MESHWRIGHT_CPU_ROW(clamped_swiglu), MESHWRIGHT_CPU_ROW(clamped_swiglu_grad),
    MESHWRIGHT_CPU_ROW(gelu),           MESHWRIGHT_CPU_ROW(gelu_grad),
    MESHWRIGHT_CPU_ROW(relu),           MESHWRIGHT_CPU_ROW(relu_grad),
    MESHWRIGHT_CPU_ROW(tanh),           MESHWRIGHT_CPU_ROW(tanh_grad),
    MESHWRIGHT_CPU_ROW(swiglu),         MESHWRIGHT_CPU_ROW(swiglu_grad),
    MESHWRIGHT_CPU_ROW(squared_relu),   MESHWRIGHT_CPU_ROW(squared_relu_grad),
};

std::span<const Row> activation_rows() { return rows; }

}  // namespace meshwright::exec::cpu
