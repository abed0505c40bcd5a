// The elementwise operations into which an eager framework splits gelu's tanh form and swiglu.
#include "exec/backends/cpu/map.h"
#include "exec/backends/cpu/math.h"
#include "exec/backends/cpu/tables.h"

namespace meshwright::exec::cpu {

template <typename T>
void scale(const KernelCall& k) {
  const T factor = static_cast<T>(k.attributes().factor);
  map<T>(k, [=](T x) { return factor * x; });
}

template <typename T>
void add_constant(const KernelCall& k) {
  const T constant = static_cast<T>(k.attributes().factor);
  map<T>(k, [=](T x) { return x + constant; });
}

template <typename T>
void cube(const KernelCall& k) {
  map<T>(k, [](T x) { return x * x * x; });
}

template <typename T>
void cube_grad(const KernelCall& k) {
  map_two<T>(k, [](T x, T dy) { return T(3) * x * x * dy; });
}

template <typename T>
void multiply(const KernelCall& k) {
  map_two<T>(k, [](T a, T b) { return a * b; });
}

template <typename T>
void silu(const KernelCall& k) {
  map<T>(k, [](T x) { return x * sigmoid(x); });
}

template <typename T>
void silu_grad(const KernelCall& k) {
  map_two<T>(k, [](T x, T dy) {
    const T s = sigmoid(x);
    return dy * (s + x * s * (T(1) - s));
  });
}

constexpr Row rows[] = {
    MESHWRIGHT_CPU_ROW(scale),     MESHWRIGHT_CPU_ROW(add_constant), MESHWRIGHT_CPU_ROW(cube),
    MESHWRIGHT_CPU_ROW(cube_grad), MESHWRIGHT_CPU_ROW(multiply),     MESHWRIGHT_CPU_ROW(silu),
    MESHWRIGHT_CPU_ROW(silu_grad),
};

std::span<const Row> eager_elementwise_rows() { return rows; }

}  // namespace meshwright::exec::cpu
