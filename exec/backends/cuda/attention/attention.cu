// Attention, forward, for whole sequences of one rank and for a context group.
#include "exec/backends/cuda/attention/attention_forward.cuh"
#include "exec/backends/cuda/attention/attention_library.h"
#include "exec/backends/cuda/attention/attention_relative.h"
#include "exec/backends/cuda/attention/latent.h"
#include "exec/backends/cuda/attention/sinks.h"
#include "exec/backends/cuda/tables.h"
#include "models/program/graph/context.h"
#include "models/program/graph/documents.h"

namespace meshwright::exec::cuda {

namespace {

template <typename T>
void run_forward(const KernelCall& k, const AttentionShape& shape, const ScoreExtras& extras,
                 const ForwardOperands<T>& operands) {
  with_kernel<T>(
      shape.dim, extras.any() || shape.documents != nullptr, [&](auto width, auto with_extras) {
        constexpr int D = decltype(width)::value;
        constexpr bool with = decltype(with_extras)::value;
        with_tile_size<ForwardTile<T, D, with, false>::shared_bytes>(k.device, [&](auto size) {
          constexpr bool small = decltype(size)::value;
          using Tile = ForwardTile<T, D, with, small>;
          launch_tiles<Tile>(attention_forward<T, D, with, small>,
                             {tile_blocks(shape, shape.heads, shape.halves, Tile::queries)},
                             Tile::shared_bytes, k, shape, extras, operands);
        });
      });
}

// Computes probabilities[batch * heads, held, held] for a tile of queries and a tile of keys, from
// the log-sum-exp.
template <typename T, int D, bool small>
__global__ void __launch_bounds__(ForwardTile<T, D, true, small>::threads,
                                  resident_blocks<ForwardTile<T, D, true, small>>)
    attention_probabilities(AttentionShape shape, ScoreExtras extras, NearHeads<const T> q,
                            NearHeads<const T> k, const float* log_sums, T* probabilities) {
  using Tile = ForwardTile<T, D, true, small>;
  constexpr int M = Tile::fragments, N = Tile::keys, pitch = row_pitch<T, D>;
  T* const q_tile = reinterpret_cast<T*>(shared_memory());
  T* const k_tile = q_tile + Tile::queries * pitch;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16 * M;
  const QueryBlock block(shape, Tile::queries);
  const int kv_head = block.head / (shape.heads / shape.kv_heads);
  const int key = static_cast<int>(blockIdx.y) * N, query = block.first + warp_row + lane / 4;
  const long long token = shape.query_row(block.sequence, 0);
  load_tile<Tile::queries, D, Tile::threads>(
      q_tile, HeadRows<const T>{q.at(token + block.first, block.head), q.row,
                                shape.length - block.first, shape.dim, shape.vectors});
  load_tile<N, D, Tile::threads>(
      k_tile, HeadRows<const T>{k.at(token + key, kv_head), k.row, shape.length - key, shape.dim,
                                shape.vectors});
  copies_commit();
  copies_wait<0>();
  __syncthreads();
  float s[M][N / 8][4];
  multiply_rows<N>(s, LeftRows<T, M, D>(q_tile + warp_row * pitch), k_tile);
  cap_products(s, extras.cap);
  const Score score(shape, extras, block.sequence, block.head, block.half);
  const long long row =
      (static_cast<long long>(block.sequence) * shape.heads + block.head) * shape.held;
  for_elements(s, [&](float x, int down, int right) {
    const int i = query + down, j = key + lane % 4 * 2 + right;
    if (i >= shape.length || j >= shape.length) return;
    const bool hidden = shape.causal && j > i;
    narrow(hidden ? 0.0f : fast_exp2(score(x, j - i, i) - log_sums[row + i] * log2_e),
           probabilities[(row + i) * shape.held + j]);
  });
}

// Computes y and the probabilities, which the unfused form saves. Flash attention writes its
// log-sum-exp to scratch memory, from which the probabilities are then computed.
template <typename T>
void run_unfused(const KernelCall& k, const AttentionShape& shape, const ScoreExtras& extras,
                 ForwardOperands<T> operands, float* log_sums) {
  operands.log_sums = log_sums;
  run_forward(k, shape, extras, operands);
  with_kernel<T>(shape.dim, true, [&](auto width, auto with_extras) {
    constexpr int D = decltype(width)::value;
    if constexpr (decltype(with_extras)::value)
      with_tile_size<ForwardTile<T, D, true, false>::shared_bytes>(k.device, [&](auto size) {
        constexpr bool small = decltype(size)::value;
        using Tile = ForwardTile<T, D, true, small>;
        launch_tiles<Tile>(attention_probabilities<T, D, small>,
                           {tile_blocks(shape, shape.heads, 1, Tile::queries),
                            blocks_for(shape.length, Tile::keys)},
                           Tile::shared_bytes, k, shape, extras, operands.q, operands.k,
                           static_cast<const float*>(log_sums), k.out<T>(1));
      });
  });
}

void attention_of_one_width(const KernelCall& k) {
  const Attributes& a = k.attributes();
  const bool packed_heads = a.packing != Packing::separate;
  const AttentionShape shape = shape_of(k);
  ScoreExtras extras = extras_of(k);
  if (a.relative_buckets > 0)
    extras.bias = make_relative_bias(k, k.in<void>(3), k.call.inputs[3].dtype, k.workspace<void>());
  with_type(k.call.inputs[0].dtype, [&](auto element) {
    using T = decltype(element);
    const QueryKeyValue<const T> heads = heads_of<const T>(
        a, {k.in<T>(0), packed_heads ? nullptr : k.in<T>(1), packed_heads ? nullptr : k.in<T>(2)});
    const ForwardOperands<T> operands{
        heads.q, heads.k, heads.v, heads_in_rows(a, k.out<T>(0)), k.out<float>(1), {}, nullptr};
    if (a.attention != AttentionKernel::unfused) {
      run_forward(k, shape, extras, operands);
      if (a.sinks) apply_sinks(k, 3);
      return;
    }
    const std::int64_t bias_bytes = a.relative_buckets > 0 ? relative_bias_bytes(a) : 0;
    run_unfused(k, shape, extras, operands, k.workspace<float>() + bias_bytes / 4);
  });
}

void own_attention(const KernelCall& k) { with_wide_values(k, attention_of_one_width); }

void context_attention(const KernelCall& k) {
  const Attributes& a = k.attributes();
  with_type(k.call.inputs[0].dtype, [&](auto element) {
    using T = decltype(element);
    const QueryKeyValue<const T> kv = keys_values(a, k.in<T>(1));
    ForwardOperands<T> operands{heads_of<const T>(a, {k.in<T>(0), nullptr, nullptr}).q,
                                kv.k,
                                kv.v,
                                heads_in_rows(a, k.out<T>(0)),
                                k.out<float>(1),
                                {},
                                nullptr};
    if (inputs_but_documents(k.call) == 4) {
      operands.y_before = heads_in_rows(a, k.in<T>(2));
      operands.log_sums_before = k.in<float>(3);
    }
    run_forward(k, context_shape_of(k), extras_of(k), operands);
  });
  if (adds_sinks(a)) apply_sinks(k, 2);
}

void attention(const KernelCall& k) {
  if (k.device.attention == nullptr || !k.device.attention->run(k)) own_attention(k);
}
std::int64_t prepare_attention(const OpCall& call, const Device& device) {
  const std::int64_t planned = gpu_scratch_bytes(call);
  if (device.attention != nullptr) device.attention->prepare(call, device, own_attention, planned);
  return planned;
}

constexpr Row rows[] = {{Op::attention, attention, prepare_attention},
                        {Op::context_attention, context_attention}};

}  // namespace

std::span<const Row> attention_rows() { return rows; }

}  // namespace meshwright::exec::cuda
