// Rotary position embedding: in every query and key head the pairs of the first rotary_dim
// coordinates are turned by angles position * base^(-2i / rotary_dim).
#include <algorithm>
#include <cmath>
#include <vector>

#include "exec/backends/cpu/kernels.h"
#include "models/graph/context.h"

namespace meshwright::cpu {

namespace {

// Where the heads that turn begin in a row, and what is copied as it is.
struct RowLayout {
  std::vector<std::int64_t> rotated;  // first columns of heads

  RowLayout(const Attributes& a, std::int64_t width) {
    const std::int64_t dim = a.head_dim;
    switch (a.packing) {
      case Packing::separate:
        for (std::int64_t at = 0; at < width; at += dim) rotated.push_back(at);
        break;
      case Packing::concatenated:
        for (std::int64_t head = 0; head < a.heads + a.kv_heads; ++head)
          rotated.push_back(head * dim);
        break;
      case Packing::per_head:
        for (std::int64_t head = 0; head < a.heads; ++head) {
          rotated.push_back(head * 3 * dim);
          rotated.push_back((head * 3 + 1) * dim);
        }
        break;
    }
  }
};

template <typename T>
struct Turn {
  std::vector<T> cosine, sine;  // one per pair

  Turn(const Attributes& a, std::int64_t position, double direction) {
    for (int i = 0; i < a.rotary_dim / 2; ++i) {
      const double angle =
          static_cast<double>(position) * std::pow(a.rotary_base, -2.0 * i / a.rotary_dim);
      cosine.push_back(static_cast<T>(std::cos(angle)));
      sine.push_back(static_cast<T>(direction * std::sin(angle)));
    }
  }

  void apply(const Attributes& a, const T* x, T* y) const {
    const std::int64_t pairs = a.rotary_dim / 2;
    const std::int64_t step = a.rotary_interleaved ? 2 : 1;
    const std::int64_t partner = a.rotary_interleaved ? 1 : pairs;
    const T* c = cosine.data();
    const T* s = sine.data();
#pragma omp simd
    for (std::int64_t i = 0; i < pairs; ++i) {
      const T first = x[i * step], second = x[i * step + partner];
      y[i * step] = first * c[i] - second * s[i];
      y[i * step + partner] = first * s[i] + second * c[i];
    }
  }
};

template <typename T>
void rotate(const KernelCall& k, double direction) {
  const Attributes& a = k.attributes();
  const std::int64_t width = k.in_shape(0)[1], rows = k.in_shape(0)[0], s = a.sequence_length;
  const RowLayout layout(a, width);
  const T* x = k.in<T>(0);
  T* y = k.out<T>(0);
  parallel_for(k.pool, std::min(s, rows), 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t position = begin; position < end; ++position) {
      const Turn<T> turn(a, context_position(a.context_degree, k.context.context_rank, s, position),
                         direction);
      for (std::int64_t r = position; r < rows; r += s) {
        if (y != x) std::copy_n(x + r * width, width, y + r * width);
        for (const std::int64_t head : layout.rotated)
          turn.apply(a, x + r * width + head, y + r * width + head);
      }
    }
  });
}

}  // namespace

template <typename T>
void rope(const KernelCall& k) {
  rotate<T>(k, 1);
}

template <typename T>
void rope_grad(const KernelCall& k) {
  rotate<T>(k, -1);
}

MESHWRIGHT_CPU_INSTANTIATE(rope);
MESHWRIGHT_CPU_INSTANTIATE(rope_grad);

}  // namespace meshwright::cpu
