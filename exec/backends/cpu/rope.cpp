// Rotary position embedding: in every query and key head, rotates the pairs of the first rotary_dim
// coordinates by the angle position * frequency. The frequency of pair i is base^(-2i /
// rotary_dim), perhaps scaled (RotaryScaling). With a temperature, multiplies the coordinates by a
// factor of the position instead.
#include <algorithm>
#include <array>
#include <cmath>

#include "exec/backends/cpu/map.h"
#include "exec/backends/cpu/tables.h"
#include "models/program/graph/context.h"
#include "models/program/graph/rotary.h"

namespace meshwright::exec::cpu {

namespace {

// Returns the frequency of a pair of coordinates, in radians per position.
double frequency_of(const Attributes& a, int pair) { return RotaryScaling(a).of_pair(pair); }

// Calls visit(column) with the first column of each head in a row that is rotated. In a packed row
// these are the queries and keys, not the values.
template <typename Visit>
void for_each_head(const Attributes& a, std::int64_t width, const Visit& visit) {
  const std::int64_t dim = a.head_dim;
  switch (a.packing) {
    case Packing::separate:
      for (std::int64_t at = 0; at < width; at += dim) visit(at);
      break;
    case Packing::concatenated:
      for (std::int64_t head = 0; head < a.heads + a.kv_heads; ++head) visit(head * dim);
      break;
    case Packing::per_head:
      for (std::int64_t head = 0; head < a.heads; ++head) {
        visit(head * 3 * dim);
        visit((head * 3 + 1) * dim);
      }
      break;
  }
}

// The cosines and sines for up to `most` pairs of a head at one position.
template <typename T>
struct Turn {
  static constexpr int most = 64;
  std::array<T, most> cosine, sine;
  int first, count;

  Turn(const Attributes& a, int first_pair, std::int64_t position, double direction)
      : first(first_pair), count(std::min(most, a.rotary_dim / 2 - first_pair)) {
    for (int i = 0; i < count; ++i) {
      if (a.temperature != 0) {
        cosine[i] = static_cast<T>(temperature_at(a, position));
        sine[i] = 0;
        continue;
      }
      const double angle = static_cast<double>(position) * frequency_of(a, first + i);
      cosine[i] = static_cast<T>(std::cos(angle));
      sine[i] = static_cast<T>(direction * std::sin(angle));
    }
  }

  void apply(const Attributes& a, const T* x, T* y) const {
    const std::int64_t step = a.rotary_interleaved ? 2 : 1;
    const std::int64_t partner = a.rotary_interleaved ? 1 : a.rotary_dim / 2;
    const T* c = cosine.data();
    const T* s = sine.data();
    x += first * step;
    y += first * step;
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
      const T one = x[i * step], other = x[i * step + partner];
      y[i * step] = one * c[i] - other * s[i];
      y[i * step + partner] = one * s[i] + other * c[i];
    }
  }
};

template <typename T>
void rotate(const KernelCall& k, double direction) {
  const Attributes& a = k.attributes();
  const std::int64_t width = k.in_shape(0)[1], rows = k.in_shape(0)[0], s = a.sequence_length;
  const T* x = k.in<T>(0);
  T* y = k.out<T>(0);
  if (y != x)
    parallel_for(k.pool, rows, rows_per_piece(width), [=](std::int64_t begin, std::int64_t end) {
      std::copy_n(x + begin * width, (end - begin) * width, y + begin * width);
    });
  // Rows with the same position are a sequence apart and share their angles. In packed sequences
  // every row is handled alone.
  const std::int32_t* documents = k.documents();
  const std::int64_t apart = documents == nullptr ? s : rows;
  parallel_for(k.pool, std::min(apart, rows), 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      std::int64_t position =
          context_position(a.context_degree, k.context.context_rank, s, row % s);
      if (documents != nullptr) position -= documents[row];
      for (int pair = 0; pair < a.rotary_dim / 2; pair += Turn<T>::most) {
        const Turn<T> turn(a, pair, position, direction);
        for (std::int64_t r = row; r < rows; r += apart)
          for_each_head(a, width, [&](std::int64_t head) {
            turn.apply(a, x + r * width + head, y + r * width + head);
          });
      }
    }
  });
}

}  // namespace

namespace {

// Multiplies pairs of coordinates by of_angle(angle), which is one of the four steps in which an
// eager framework rotates. The coordinates of a row that do not turn are multiplied by `rest`.
template <typename T, typename Function>
void times_angles(const KernelCall& k, T rest, const Function& of_angle) {
  const Attributes& a = k.attributes();
  const std::int64_t width = k.in_shape(0)[1], rows = k.in_shape(0)[0], s = a.sequence_length;
  const std::int64_t step = a.rotary_interleaved ? 2 : 1;
  const std::int64_t partner = a.rotary_interleaved ? 1 : a.rotary_dim / 2;
  const T* x = k.in<T>(0);
  T* y = k.out<T>(0);
  parallel_for(k.pool, std::min(s, rows), 4, [&](std::int64_t begin, std::int64_t end) {
    std::array<T, Turn<T>::most> factors;
    const T* f = factors.data();
    for (std::int64_t row = begin; row < end; ++row) {
      for (std::int64_t r = row; r < rows; r += s)
#pragma omp simd
        for (std::int64_t c = r * width; c < (r + 1) * width; ++c) y[c] = rest * x[c];
      const auto position =
          static_cast<double>(context_position(a.context_degree, k.context.context_rank, s, row));
      for (int first = 0; first < a.rotary_dim / 2; first += Turn<T>::most) {
        const int count = std::min(Turn<T>::most, a.rotary_dim / 2 - first);
        for (int i = 0; i < count; ++i)
          factors[i] = static_cast<T>(of_angle(position * frequency_of(a, first + i)));
        for (std::int64_t r = row; r < rows; r += s)
          for_each_head(a, width, [&](std::int64_t head) {
            const T* in = x + r * width + head + first * step;
            T* out = y + r * width + head + first * step;
#pragma omp simd
            for (std::int64_t i = 0; i < count; ++i) {
              out[i * step] = in[i * step] * f[i];
              out[i * step + partner] = in[i * step + partner] * f[i];
            }
          });
      }
    }
  });
}

// Writes for each pair (p, q) the pair (-q, p) if `sign` is 1, or (q, -p) if it is -1. All
// coordinates that belong to no pair become 0.
template <typename T>
void rotate_halves(const KernelCall& k, T sign) {
  const Attributes& a = k.attributes();
  const std::int64_t width = k.in_shape(0)[1], rows = k.in_shape(0)[0];
  const std::int64_t step = a.rotary_interleaved ? 2 : 1;
  const std::int64_t partner = a.rotary_interleaved ? 1 : a.rotary_dim / 2;
  const T* x = k.in<T>(0);
  T* y = k.out<T>(0);
  for_each_row(k, rows, width, [&](std::int64_t r) {
    const T* in = x + r * width;
    T* out = y + r * width;
    std::fill_n(out, width, T(0));
    for_each_head(a, width, [&](std::int64_t head) {
#pragma omp simd
      for (std::int64_t i = 0; i < a.rotary_dim / 2; ++i) {
        const std::int64_t at = head + i * step;
        out[at] = -sign * in[at + partner];
        out[at + partner] = sign * in[at];
      }
    });
  });
}

}  // namespace

template <typename T>
void times_cosine(const KernelCall& k) {
  times_angles<T>(k, 1, [](double angle) { return std::cos(angle); });
}

template <typename T>
void times_sine(const KernelCall& k) {
  times_angles<T>(k, 0, [](double angle) { return std::sin(angle); });
}

template <typename T>
void rotate_half(const KernelCall& k) {
  rotate_halves<T>(k, 1);
}

template <typename T>
void rotate_half_grad(const KernelCall& k) {
  rotate_halves<T>(k, -1);
}

template <typename T>
void rope(const KernelCall& k) {
  rotate<T>(k, 1);
}

template <typename T>
void rope_grad(const KernelCall& k) {
  rotate<T>(k, -1);
}

// Writes for each head first the part without rotation, then the rotated part.
template <typename T>
void concat_heads(const KernelCall& k) {
  const Attributes& a = k.attributes();
  const std::int64_t heads = a.heads, turned = a.rotary_dim, other = a.head_dim - turned;
  const T *x = k.in<T>(0), *r = k.in<T>(1);
  T* y = k.out<T>(0);
  const std::int64_t r_head = a.kv_heads == 1 ? 0 : turned, r_row = a.kv_heads * turned;
  parallel_for(k.pool, k.in_shape(0)[0], rows_per_piece(k.out_shape(0)[1]),
               [=](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t row = begin; row < end; ++row)
                   for (std::int64_t head = 0; head < heads; ++head) {
                     T* to = y + (row * heads + head) * (other + turned);
                     std::copy_n(x + (row * heads + head) * other, other, to);
                     std::copy_n(r + row * r_row + head * r_head, turned, to + other);
                   }
               });
}

template <typename T>
void concat_heads_grad(const KernelCall& k) {
  const Attributes& a = k.attributes();
  const std::int64_t heads = a.heads, turned = a.rotary_dim, other = a.head_dim - turned;
  const T* dy = k.in<T>(0);
  T *dx = k.out<T>(0), *dr = k.out<T>(1);
  const std::int64_t r_head = a.kv_heads == 1 ? 0 : turned, r_row = a.kv_heads * turned;
  parallel_for(k.pool, k.in_shape(0)[0], rows_per_piece(k.in_shape(0)[1]),
               [=](std::int64_t begin, std::int64_t end) {
                 std::fill(dr + begin * r_row, dr + end * r_row, T(0));
                 for (std::int64_t row = begin; row < end; ++row)
                   for (std::int64_t head = 0; head < heads; ++head) {
                     const T* from = dy + (row * heads + head) * (other + turned);
                     std::copy_n(from, other, dx + (row * heads + head) * other);
                     T* to = dr + row * r_row + head * r_head;
                     for (std::int64_t c = 0; c < turned; ++c) to[c] += from[other + c];
                   }
               });
}

constexpr Row rows[] = {
    MESHWRIGHT_CPU_ROW(rotate_half),  MESHWRIGHT_CPU_ROW(rotate_half_grad),
    MESHWRIGHT_CPU_ROW(times_cosine), MESHWRIGHT_CPU_ROW(times_sine),
    MESHWRIGHT_CPU_ROW(rope),         MESHWRIGHT_CPU_ROW(rope_grad),
    MESHWRIGHT_CPU_ROW(concat_heads), MESHWRIGHT_CPU_ROW(concat_heads_grad),
};

std::span<const Row> rope_rows() { return rows; }

}  // namespace meshwright::exec::cpu
