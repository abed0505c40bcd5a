// Unfused attention as an eager framework computes it. Every step works on all score matrices
// [micro_batch * heads, s, s] at once.
#include <algorithm>
#include <array>

#include "exec/backends/cpu/heads.h"
#include "exec/backends/cpu/map.h"
#include "exec/backends/cpu/reduce.h"
#include "exec/backends/cpu/tables.h"

namespace meshwright::exec::cpu {

namespace {

// The heads of a packed tensor's queries, keys and values, or of a separate tensor.
template <typename T>
struct Parts {
  std::array<Heads<T>, 3> heads;
  std::array<std::int64_t, 3> count{};
  std::size_t size = 1;

  Parts(const Attributes& a, T* matrix, std::int64_t width) {
    if (a.packing == Packing::separate) {
      heads[0] = {matrix, width, a.head_dim};
      count[0] = width / a.head_dim;
      return;
    }
    T* const tensors[3] = {matrix, nullptr, nullptr};
    const QueryKeyValue<T> all = heads_of<T>(a, tensors);
    heads = {all.q, all.k, all.v};
    count = {a.heads, a.kv_heads, a.kv_heads};
    size = 3;
  }
};

// Calls visit(address in the matrix, address in the tensor [heads of all sequences, s, d]) for each
// head of each token.
template <typename T, typename Own, typename Visit>
void for_each_head(const KernelCall& k, const Parts<T>& parts, const Own& own, const Visit& visit) {
  const Attributes& a = k.attributes();
  const std::int64_t s = a.sequence_length, d = a.head_dim;
  for (std::size_t part = 0; part < parts.size; ++part) {
    const std::int64_t count = parts.count[part];
    const Heads<T>& heads = parts.heads[part];
    auto* const of_part = own(part);
    parallel_for(k.pool, a.micro_batch * count, 1, [&](std::int64_t task, std::int64_t) {
      T* at = heads.at(task / count * s, task % count);
      for (std::int64_t i = 0; i < s; ++i) visit(at + i * heads.row, of_part + (task * s + i) * d);
    });
  }
}

// An operand [heads, rows, columns], which has one matrix for each head.
template <typename T>
struct Matrix {
  const T* data;
  std::int64_t rows, columns;
  explicit Matrix(const KernelCall& k, std::size_t input)
      : data(k.in<T>(input)), rows(k.in_shape(input)[1]), columns(k.in_shape(input)[2]) {}
  const T* of(std::int64_t head) const { return data + head * rows * columns; }
};

// Returns how many query heads share a head of keys and values.
std::int64_t group_of(const Attributes& a) { return a.heads / a.kv_heads; }

// Multiplies each head's matrix by that of the head of keys or values that it shares, transposed
// for keys.
template <typename T>
void multiply_by_shared_head(const KernelCall& k, bool transpose) {
  const Matrix<T> of_head(k, 0), shared(k, 1);
  const std::int64_t group = group_of(k.attributes());
  const std::int64_t columns = transpose ? shared.rows : shared.columns;
  T* y = k.out<T>(0);
  parallel_for(k.pool, k.in_shape(0)[0], 1, [=](std::int64_t head, std::int64_t) {
    multiply(Product<T>{.m = of_head.rows,
                        .n = columns,
                        .k = of_head.columns,
                        .a = {of_head.of(head), of_head.columns},
                        .b = {shared.of(head / group), shared.columns, transpose},
                        .c = y + head * of_head.rows * columns,
                        .c_row = columns});
  });
}

}  // namespace

template <typename T>
void split_heads(const KernelCall& k) {
  const std::int64_t d = k.attributes().head_dim;
  const Parts<const T> parts(k.attributes(), k.in<T>(0), k.in_shape(0)[1]);
  for_each_head(
      k, parts, [&](std::size_t part) { return k.out<T>(part); },
      [d](const T* from, T* to) { std::copy_n(from, d, to); });
}

template <typename T>
void join_heads(const KernelCall& k) {
  const std::int64_t d = k.attributes().head_dim;
  const Parts<T> parts(k.attributes(), k.out<T>(0), k.out_shape(0)[1]);
  for_each_head(
      k, parts, [&](std::size_t part) { return k.in<T>(part); },
      [d](T* to, const T* from) { std::copy_n(from, d, to); });
}

template <typename T>
void scores(const KernelCall& k) {
  multiply_by_shared_head<T>(k, true);
}

template <typename T>
void weigh_values(const KernelCall& k) {
  multiply_by_shared_head<T>(k, false);
}

template <typename T>
void weigh_transposed(const KernelCall& k) {
  const Matrix<T> w(k, 0), x(k, 1);
  const std::int64_t group = group_of(k.attributes());
  T* y = k.out<T>(0);
  parallel_for(k.pool, k.out_shape(0)[0], 1, [=](std::int64_t shared, std::int64_t) {
    for (std::int64_t head = shared * group; head < (shared + 1) * group; ++head)
      multiply(Product<T>{.m = w.columns,
                          .n = x.columns,
                          .k = w.rows,
                          .a = {w.of(head), w.columns, true},
                          .b = {x.of(head), x.columns},
                          .c = y + shared * w.columns * x.columns,
                          .c_row = x.columns,
                          .beta = head == shared * group ? T(0) : T(1)});
  });
}

template <typename T>
void add_alibi(const KernelCall& k) {
  const Attributes& a = k.attributes();
  const std::int64_t heads = a.heads, s = a.sequence_length;
  const std::int64_t first_head = first_head_of(a, k.context.tensor_rank, k.context.context_rank);
  const std::int64_t all_heads = a.alibi_heads;
  const T* x = k.in<T>(0);
  T* y = k.out<T>(0);
  for_each_row(k, k.in_shape(0)[0] * s, s, [=](std::int64_t r) {
    const T slope = static_cast<T>(alibi_slope(first_head + r / s % heads, all_heads));
    const T first = static_cast<T>(r % s);
#pragma omp simd
    for (std::int64_t j = 0; j < s; ++j)
      y[r * s + j] = x[r * s + j] + slope * (static_cast<T>(static_cast<std::int32_t>(j)) - first);
  });
}

template <typename T>
void mask_scores(const KernelCall& k) {
  const std::int64_t s = k.in_shape(0)[1], keys = k.in_shape(0)[2];
  const T masked = static_cast<T>(k.attributes().factor);
  const Attributes& a = k.attributes();
  const std::int32_t* documents = k.documents();
  const T* x = k.in<T>(0);
  T* y = k.out<T>(0);
  for_each_row(k, k.in_shape(0)[0] * s, keys, [=, &a](std::int64_t r) {
    const std::int32_t* own = documents == nullptr ? nullptr : documents + r / (s * a.heads) * s;
    const std::int64_t text = own == nullptr ? 0 : own[r % s];
    const std::int64_t end =
        a.causal ? std::min(r % s + 1, keys) : std::upper_bound(own, own + s, text) - own;
    const std::int64_t begin = text + first_seen(a, r % s - text);
    std::fill(y + r * keys, y + r * keys + begin, masked);
    std::copy(x + r * keys + begin, x + r * keys + end, y + r * keys + begin);
    std::fill(y + r * keys + end, y + (r + 1) * keys, masked);
  });
}

template <typename T>
void softmax(const KernelCall& k) {
  const std::int64_t n = k.in_shape(0)[-1];
  const T* x = k.in<T>(0);
  T* y = k.out<T>(0);
  for_each_row(k, k.in_shape(0).elements() / n, n, [=](std::int64_t r) {
    const T* in = x + r * n;
    T* out = y + r * n;
    const T maximum = maximum_of(in, n);
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t j = 0; j < n; ++j) {
      out[j] = exp_of(in[j] - maximum);
      sum += out[j];
    }
    const T factor = T(1) / sum;
#pragma omp simd
    for (std::int64_t j = 0; j < n; ++j) out[j] *= factor;
  });
}

template <typename T>
void softmax_grad(const KernelCall& k) {
  const std::int64_t n = k.in_shape(0)[-1];
  const T* y = k.in<T>(0);
  const T* dy = k.in<T>(1);
  T* dx = k.out<T>(0);
  for_each_row(k, k.in_shape(0).elements() / n, n, [=](std::int64_t r) {
    const T* of_row = y + r * n;
    const T* d = dy + r * n;
    T* out = dx + r * n;
    const T mean = dot(of_row, d, n);
#pragma omp simd
    for (std::int64_t j = 0; j < n; ++j) out[j] = of_row[j] * (d[j] - mean);
  });
}

// Applies dropout to probabilities, or to their gradients. It drops the same elements in forward
// and backward as the fused kernels do (heads.h).
template <typename T>
void drop_probabilities(const KernelCall& k) {
  const Attributes& a = k.attributes();
  const std::int64_t heads = a.heads, s = a.sequence_length;
  const std::int64_t first_head = first_head_of(a, k.context.tensor_rank, k.context.context_rank);
  const std::int64_t first_sequence = k.context.first_sequence;
  const Dropout mask(a);
  const T* x = k.in<T>(0);
  T* y = k.out<T>(0);
  for_each_row(k, k.in_shape(0)[0] * s, s, [=](std::int64_t r) {
    const std::int64_t sequence = first_sequence + r / (s * heads);
    mask.apply(x + r * s, y + r * s, s, sequence, first_head * s + r % (s * heads), 0);
  });
}

namespace {

// Calls visit(head, tile, offset) for tiles of up to tile_length query rows and all keys, where
// `offset` is the tile's first element in an operand [heads of all sequences, s, s]. One thread
// visits all tiles of a head in order.
template <typename Visit>
void for_each_score_tile(const KernelCall& k, const Visit& visit) {
  const Attributes& a = k.attributes();
  const std::int64_t s = a.sequence_length;
  parallel_for(k.pool, a.heads, 1, [&](std::int64_t head, std::int64_t) {
    for (std::int64_t batch = 0; batch < a.micro_batch; ++batch)
      for (std::int64_t i = 0; i < s; i += tile_length)
        visit(head, Tile{i, std::min(tile_length, s - i), 0, s},
              ((batch * a.heads + head) * s + i) * s);
  });
}

}  // namespace

template <typename T>
void add_relative_bias(const KernelCall& k) {
  const Attributes& a = k.attributes();
  const T* x = k.in<T>(0);
  const T* table = k.in<T>(1);
  T* y = k.out<T>(0);
  for_each_score_tile(k, [=, &a](std::int64_t head, const Tile& tile, std::int64_t begin) {
    std::copy_n(x + begin, tile.rows * tile.columns, y + begin);
    add_relative(RelativeColumn<const T>{a, table + head}, tile, y + begin, tile.columns);
  });
}

template <typename T>
void relative_bias_grad(const KernelCall& k) {
  const Attributes& a = k.attributes();
  const T* dy = k.in<T>(0);
  T* table = k.out<T>(0);
  for_each_score_tile(k, [=, &a](std::int64_t head, const Tile& tile, std::int64_t begin) {
    add_relative_sums(RelativeColumn<T>{a, table + head}, tile, dy + begin, tile.columns, T(1));
  });
}

constexpr Row rows[] = {
    MESHWRIGHT_MOVING_ROW(split_heads),
    MESHWRIGHT_MOVING_ROW(join_heads),
    MESHWRIGHT_CPU_ROW(scores),
    MESHWRIGHT_CPU_ROW(add_alibi),
    MESHWRIGHT_CPU_ROW(add_relative_bias),
    MESHWRIGHT_CPU_ROW(relative_bias_grad),
    MESHWRIGHT_CPU_ROW(mask_scores),
    MESHWRIGHT_CPU_ROW(softmax),
    MESHWRIGHT_CPU_ROW(softmax_grad),
    MESHWRIGHT_CPU_ROW(drop_probabilities),
    {Op::drop_probabilities_grad, drop_probabilities<float>, drop_probabilities<double>},
    MESHWRIGHT_CPU_ROW(weigh_values),
    MESHWRIGHT_CPU_ROW(weigh_transposed),
};

std::span<const Row> eager_attention_rows() { return rows; }

}  // namespace meshwright::exec::cpu
