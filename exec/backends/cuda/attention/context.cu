// Packs the keys and values of a context group's rank into one tensor for the other ranks (in each
// row all keys, then all values), and unpacks their gradients into the layout of attention's
// operands. Also moves the tokens of all ranks into the order of their sequences, and back.
#include "exec/backends/cuda/attention/heads.cuh"
#include "exec/backends/cuda/rows/rows.cuh"
#include "exec/backends/cuda/tables.h"

namespace meshwright::exec::cuda {

namespace {

// Returns the heads of the keys and values in the packed tensor `kv`. The queries are null.
template <typename T>
QueryKeyValue<T> packed(const Attributes& a, T* kv) {
  const long long half = static_cast<long long>(a.kv_heads) * a.head_dim;
  return {{}, {kv, 2 * half, a.head_dim}, {kv + half, 2 * half, a.head_dim}};
}

void context_pack(const KernelCall& k) {
  const Attributes& a = k.attributes();
  const bool separate = a.packing == Packing::separate;
  with_vectors(k.call.inputs[0].dtype, a.head_dim, [&]<typename T, int vector>() {
    const auto from =
        heads_of<const T>(a, {k.in<T>(0), k.in<T>(0), separate ? k.in<T>(1) : nullptr});
    const auto to = packed(a, k.out<T>(0));
    copy_heads<vector, T>(
        k, k.in_shape(0)[0],
        {{from.k, from.v, {}}, {to.k, to.v, {}}, {a.kv_heads, a.kv_heads, 0}, a.head_dim});
  });
}

void context_unpack(const KernelCall& k) {
  const Attributes& a = k.attributes();
  const bool separate = a.packing == Packing::separate;
  with_vectors(k.call.inputs[0].dtype, a.head_dim, [&]<typename T, int vector>() {
    const auto to = heads_of<T>(a, {k.out<T>(0), k.out<T>(0), separate ? k.out<T>(1) : nullptr});
    const auto from = packed(a, k.in<T>(separate ? 0 : 1));
    const Heads<const T> dq{k.in<T>(0), static_cast<long long>(a.heads) * a.head_dim, a.head_dim};
    copy_heads<vector, T>(k, k.in_shape(0)[0],
                          {{from.k, from.v, dq},
                           {to.k, to.v, to.q},
                           {a.kv_heads, a.kv_heads, separate ? 0 : a.heads},
                           a.head_dim});
  });
}

// Moves each row of the ranks' parts to its place in the sequences, or back if `to_sequence` is
// false.
template <typename T>
struct MovedTokens {
  using Element = T;
  const T* from;
  T* to;
  long long width, held, batch;
  int degree;
  bool to_sequence;

  struct Place {
    long long from, to;
  };
  __device__ Place place(long long row) const {
    const int rank = static_cast<int>(row / (batch * held));
    const long long own = row % (batch * held), sequence = own / held * held * degree;
    const long long of_part = row * width;
    const long long of_whole =
        (sequence + context_position(degree, rank, held, own % held)) * width;
    return to_sequence ? Place{of_part, of_whole} : Place{of_whole, of_part};
  }
  __device__ T* at(const Place& of, long long column) const { return to + of.to + column; }
  template <int n>
  __device__ Chunk<T, n> make(const Place& of, long long column) const {
    return chunk_at<n>(from + of.from + column);
  }
};

template <bool to_sequence>
void move_tokens(const KernelCall& k) {
  const Attributes& a = k.attributes();
  const std::int64_t rows = k.in_shape(0)[0], width = k.in_shape(0)[1];
  with_vectors(k.call.inputs[0].dtype, width, [&]<typename T, int vector>() {
    for_each_row<vector>(k, rows, width,
                         MovedTokens<T>{k.in<T>(0), k.out<T>(0), width, a.sequence_length,
                                        a.micro_batch, a.context_degree, to_sequence});
  });
}

constexpr Row rows[] = {
    {Op::context_pack, context_pack},
    {Op::context_unpack, context_unpack},
    {Op::parts_to_sequence, move_tokens<true>},
    {Op::sequence_to_parts, move_tokens<false>},
};

}  // namespace

std::span<const Row> context_rows() { return rows; }

}  // namespace meshwright::exec::cuda
