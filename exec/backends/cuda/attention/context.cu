// Keys and values of a context group's rank as they travel: in one tensor, all keys before all
// values in a row; and back into the layout of attention's operands.
#include "exec/backends/cuda/attention/heads.cuh"
#include "exec/backends/cuda/tables.h"

namespace meshwright::cuda {

namespace {

// The keys and values of the packed tensor.
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

constexpr Row rows[] = {
    {Op::context_pack, context_pack},
    {Op::context_unpack, context_unpack},
};

}  // namespace

std::span<const Row> context_rows() { return rows; }

}  // namespace meshwright::cuda
