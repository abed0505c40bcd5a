// Packs the keys and values of a context group's rank into one tensor for the other ranks (in each
// row all keys, then all values), and unpacks them into the layout of attention's operands. Also
// moves the tokens of all ranks into the order of their sequences, and back.
#include <algorithm>

#include "exec/backends/cpu/heads.h"
#include "exec/backends/cpu/tables.h"

namespace meshwright::exec::cpu {

namespace {

template <typename T>
void copy_heads(const KernelCall& k, std::int64_t heads, const Heads<const T>& from,
                const Heads<T>& to) {
  const std::int64_t rows = k.in_shape(0)[0], dim = k.attributes().head_dim;
  parallel_for(k.pool, rows, rows_per_piece(heads * dim),
               [=](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t row = begin; row < end; ++row)
                   for (std::int64_t h = 0; h < heads; ++h)
                     std::copy_n(from.at(row, h), dim, to.at(row, h));
               });
}

// Returns the heads of the keys and values in the packed tensor `kv`. The queries are null.
template <typename T>
QueryKeyValue<T> packed(const Attributes& a, T* kv) {
  const std::int64_t half = std::int64_t{a.kv_heads} * a.head_dim;
  return {{}, {kv, 2 * half, a.head_dim}, {kv + half, 2 * half, a.head_dim}};
}

template <typename T>
void move_tokens(const KernelCall& k, bool to_sequence) {
  const Attributes& a = k.attributes();
  const std::int64_t rows = k.in_shape(0)[0], width = k.in_shape(0)[1];
  const T* x = k.in<T>(0);
  T* y = k.out<T>(0);
  parallel_for(k.pool, rows, rows_per_piece(width), [=, &a](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t place =
          context_row(a.context_degree, a.sequence_length, a.micro_batch, row);
      const auto [from, to] = to_sequence ? std::pair(row, place) : std::pair(place, row);
      std::copy_n(x + from * width, width, y + to * width);
    }
  });
}

}  // namespace

template <typename T>
void context_pack(const KernelCall& k) {
  const Attributes& a = k.attributes();
  const bool separate = a.packing == Packing::separate;
  const T* const tensors[3] = {k.in<T>(0), k.in<T>(0), separate ? k.in<T>(1) : nullptr};
  const QueryKeyValue<const T> from = heads_of<const T>(a, tensors);
  const QueryKeyValue<T> to = packed(a, k.out<T>(0));
  copy_heads(k, a.kv_heads, from.k, to.k);
  copy_heads(k, a.kv_heads, from.v, to.v);
}

template <typename T>
void context_unpack(const KernelCall& k) {
  const Attributes& a = k.attributes();
  const bool separate = a.packing == Packing::separate;
  T* const tensors[3] = {k.out<T>(0), k.out<T>(0), separate ? k.out<T>(1) : nullptr};
  const QueryKeyValue<T> to = heads_of<T>(a, tensors);
  const QueryKeyValue<const T> from = packed(a, k.in<T>(separate ? 0 : 1));
  copy_heads(k, a.kv_heads, from.k, to.k);
  copy_heads(k, a.kv_heads, from.v, to.v);
  if (separate) return;
  const Heads<const T> dq{k.in<T>(0), std::int64_t{a.heads} * a.head_dim, a.head_dim};
  copy_heads(k, a.heads, dq, to.q);
}

template <typename T>
void parts_to_sequence(const KernelCall& k) {
  move_tokens<T>(k, true);
}

template <typename T>
void sequence_to_parts(const KernelCall& k) {
  move_tokens<T>(k, false);
}

constexpr Row rows[] = {
    MESHWRIGHT_CPU_ROW(context_pack),
    MESHWRIGHT_CPU_ROW(context_unpack),
    MESHWRIGHT_MOVING_ROW(parts_to_sequence),
    MESHWRIGHT_MOVING_ROW(sequence_to_parts),
};

std::span<const Row> context_rows() { return rows; }

}  // namespace meshwright::exec::cpu
