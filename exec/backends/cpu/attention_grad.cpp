// Attention, backward, tile by tile. The probabilities are read (unfused) or recomputed from the
// log-sum-exp (flash). With P the probabilities and S the scores:
//   dV = P^T dY,  dP = dY V^T,  dS = P (dP - rowsum(dY Y)),
//   dQ = dS K * scale,  dK = dS^T Q * scale,
// where scale is that of the scores, usually 1 / sqrt(d). The table of relative positions gets, for
// each bucket of distances (models/program/graph/relative.h), the sum of dS over the pairs whose
// distance is in the bucket. If scores are capped, S is c tanh(Z / c) plus the biases of positions,
// with Z = Q K^T * scale, which is recomputed. dQ and dK then use dZ = dS (1 - tanh(Z / c)^2). With
// dropout D, dV = (D P)^T dY and dP = D (dY V^T). Even then, rowsum(P dP) = rowsum(dY Y).
#include <array>

#include "exec/backends/cpu/heads.h"
#include "exec/backends/cpu/reduce.h"
#include "exec/backends/cpu/tables.h"
#include "models/program/graph/context.h"
#include "models/program/graph/documents.h"

namespace meshwright::exec::cpu {

namespace {

template <typename T>
struct Tiles {
  std::array<T, tile_length * tile_length> p, ds;
  std::array<T, tile_length * tile_length> slopes;  // derivatives of capped scores
};

// The operands and results of one head's gradients, as addresses of token 0.
template <typename T>
struct HeadGradient {
  const T* y;
  const T* dy;
  std::int64_t y_row;
  const T* saved;  // [s, s] probabilities or [s] log-sum-exp
  T* dq;
  T* dk;
  T* dv;
  std::int64_t q_row, k_row, v_row;
  T* table = nullptr;  // the head's column
};

template <typename T>
void probabilities(const HeadInput<T>& in, const Tile& t, const T* saved, Tiles<T>& tiles) {
  T* p = tiles.p.data();
  if (in.a.attention == AttentionKernel::unfused) {
    const std::int64_t s = in.a.sequence_length;
    if (in.a.score_cap > 0) in.scores(t, p, t.columns, tiles.slopes.data());
    for (std::int64_t i = 0; i < t.rows; ++i)
      std::copy_n(saved + (t.i0 + i) * s + t.j0, t.columns, p + i * t.columns);
    return;
  }
  in.scores(t, p, t.columns, tiles.slopes.data());
  for (std::int64_t i = 0; i < t.rows; ++i) {
    T* row = p + i * t.columns;
    const std::int64_t visible = t.visible(in.a, i);
    const T log_sum = saved[t.i0 + i];
#pragma omp simd
    for (std::int64_t j = 0; j < visible; ++j) row[j] = exp_of(row[j] - log_sum);
    std::fill(row + visible, row + t.columns, T(0));
  }
}

// Turns ds from dP into dS times the scores' scale (1 / sqrt(d) unless the model sets another).
template <typename T>
void score_gradients(const HeadInput<T>& in, const Tile& t, const HeadGradient<T>& g, const T* p,
                     T* ds) {
  for (std::int64_t i = 0; i < t.rows; ++i) {
    const std::int64_t token = (t.i0 + i) * g.y_row;
    const T mean = dot(g.dy + token, g.y + token, value_dim_of(in.a));
    const T* weights = p + i * t.columns;
    T* row = ds + i * t.columns;
#pragma omp simd
    for (std::int64_t j = 0; j < t.columns; ++j) row[j] = weights[j] * (row[j] - mean) * in.scale;
  }
}

// Turns ds from the gradients of capped scores into those of the scores before the cap. Does
// nothing without a cap.
template <typename T>
void uncap(const HeadInput<T>& in, const Tile& t, Tiles<T>& tiles) {
  if (in.a.score_cap == 0) return;
  T* ds = tiles.ds.data();
  const T* slopes = tiles.slopes.data();
#pragma omp simd
  for (std::int64_t i = 0; i < t.rows * t.columns; ++i) ds[i] *= slopes[i];
}

// Says whether a tile's products are added to dq, and to dk and dv. Otherwise they replace what is
// there.
struct Adds {
  bool dq = true, dkv = true;
};

// Computes dP = dY V^T for one tile, and from it the tile's parts of dV, dQ and dK. They are added
// to what is there, or replace it where `adds` is false. The part of the gradient of the table of
// relative positions, if there is one, is always added.
template <typename T>
void tile_gradient(const HeadInput<T>& in, const Tile& t, const HeadGradient<T>& g, Adds adds,
                   Tiles<T>& tiles) {
  const std::int64_t dim = in.a.head_dim, value_dim = value_dim_of(in.a);
  const T* dy = g.dy + t.i0 * g.y_row;
  const T* p = tiles.p.data();
  T* ds = tiles.ds.data();
  const T kv_beta = adds.dkv ? T(1) : T(0);
  probabilities(in, t, g.saved, tiles);
  const Product<T> dv{.m = t.columns,
                      .n = value_dim,
                      .k = t.rows,
                      .a = {p, t.columns, true},
                      .b = {dy, g.y_row},
                      .c = g.dv + t.j0 * g.v_row,
                      .c_row = g.v_row,
                      .beta = kv_beta};
  const Product<T> dp{.m = t.rows,
                      .n = t.columns,
                      .k = value_dim,
                      .a = {dy, g.y_row},
                      .b = {in.v + t.j0 * in.all.v.row, in.all.v.row, true},
                      .c = ds,
                      .c_row = t.columns};
  const Product<T> dq{.m = t.rows,
                      .n = dim,
                      .k = t.columns,
                      .a = {ds, t.columns},
                      .b = {in.k + t.j0 * in.all.k.row, in.all.k.row},
                      .c = g.dq + t.i0 * g.q_row,
                      .c_row = g.q_row,
                      .beta = adds.dq ? T(1) : T(0)};
  const Product<T> dk{.m = t.columns,
                      .n = dim,
                      .k = t.rows,
                      .a = {ds, t.columns, true},
                      .b = {in.q + t.i0 * in.all.q.row, in.all.q.row},
                      .c = g.dk + t.j0 * g.k_row,
                      .c_row = g.k_row,
                      .beta = kv_beta};
  multiply(dp);
  in.drop(t, ds);
  score_gradients(in, t, g, p, ds);
  if (g.table != nullptr)
    add_relative_sums(RelativeColumn<T>{in.a, g.table}, t, ds, t.columns, T(1) / in.scale);
  uncap(in, t, tiles);
  in.drop(t, tiles.p.data());
  multiply(dv);
  multiply(dq);
  multiply(dk);
}

template <typename T>
void head_gradient(const HeadInput<T>& in, const HeadGradient<T>& g, bool first_of_group,
                   Tiles<T>& tiles) {
  const std::int64_t s = in.a.sequence_length;
  for (std::int64_t j0 = 0; j0 < s; j0 += tile_length) {
    const std::int64_t columns = std::min(tile_length, s - j0);
    const std::int64_t first_row = in.a.causal ? j0 : 0;
    for (std::int64_t i0 = first_row; i0 < s; i0 += tile_length) {
      const Tile t{i0, std::min(tile_length, s - i0), j0, columns};
      if (in.hides(t)) break;  // later rows do not see these keys either
      const bool adds_dq = j0 != in.first_column(i0);
      tile_gradient(in, t, g, {adds_dq, !first_of_group || i0 != first_row}, tiles);
    }
  }
}

// The addresses of the operands of one attention_grad, as heads where they have heads.
template <typename T>
struct Operands {
  QueryKeyValue<const T> heads;
  QueryKeyValue<T> gradients;
  const T* y;
  const T* saved;
  const T* dy;
  const T* table = nullptr;  // relative positions
  T* table_gradient = nullptr;

  explicit Operands(const KernelCall& k) {
    const Attributes& a = k.attributes();
    const std::size_t tensors = a.packing == Packing::separate ? 3 : 1;
    const T* in[3] = {};
    T* out[3] = {};
    for (std::size_t i = 0; i < tensors; ++i) {
      in[i] = k.in<T>(i);
      out[i] = k.out<T>(i);
    }
    heads = heads_of<const T>(a, in);
    gradients = heads_of<T>(a, out);
    y = k.in<T>(tensors);
    saved = k.in<T>(tensors + 1);
    dy = k.in<T>(tensors + 2);
    if (a.relative_buckets == 0) return;
    table = k.in<T>(tensors + 3);
    table_gradient = k.out<T>(tensors);
  }

  HeadGradient<T> at(const Attributes& a, std::int64_t batch, std::int64_t head) const {
    const std::int64_t s = a.sequence_length, y_head = value_dim_of(a), y_row = a.heads * y_head;
    const std::int64_t token = batch * s, kv_head = head / (a.heads / a.kv_heads);
    const std::int64_t per_head = a.attention == AttentionKernel::unfused ? s * s : s;
    return {.y = y + token * y_row + head * y_head,
            .dy = dy + token * y_row + head * y_head,
            .y_row = y_row,
            .saved = saved + (batch * a.heads + head) * per_head,
            .dq = gradients.q.at(token, head),
            .dk = gradients.k.at(token, kv_head),
            .dv = gradients.v.at(token, kv_head),
            .q_row = gradients.q.row,
            .k_row = gradients.k.row,
            .v_row = gradients.v.row,
            .table = table_gradient == nullptr ? nullptr : table_gradient + head};
  }
};

}  // namespace

namespace {

// Adds the gradients of the sinks. Because a sink has no value, its gradient is minus its
// probability times dy . y, summed over tokens. Does nothing if the sinks are not trained. After
// the `tensors` inputs that attention reads come y, the saved log-sum-exp, dy and the sinks. After
// their `tensors` gradients comes that of the sinks.
template <typename T>
void add_sink_gradients(const KernelCall& k, std::size_t tensors) {
  const Attributes& a = k.attributes();
  if (k.call.outputs.size() == tensors) return;  // they are not trained
  const T *y = k.in<T>(tensors), *saved = k.in<T>(tensors + 1), *dy = k.in<T>(tensors + 2);
  const std::int64_t first = first_own_head(a, k.context.context_rank);
  const T* sinks = k.in<T>(tensors + 3) + first;
  T* sums = k.out<T>(tensors) + first;
  const std::int64_t s = a.sequence_length, y_head = value_dim_of(a), y_row = a.heads * y_head;
  parallel_for(k.pool, a.heads, 1, [&](std::int64_t head, std::int64_t) {
    T sum = 0;
    for (std::int64_t token = 0; token < a.micro_batch * s; ++token) {
      const std::int64_t row = (token / s * a.heads + head) * s + token % s;
      const std::int64_t begin = token * y_row + head * y_head;
      const T share = exp_of(sinks[head] - saved[row]);
      T dot = 0;
      for (std::int64_t c = 0; c < y_head; ++c) dot += y[begin + c] * dy[begin + c];
      sum -= share * dot;
    }
    sums[head] += sum;
  });
}

}  // namespace

// Computes the gradients with one task per key-value head of a sequence, because the query heads
// that share it add to the same dk and dv. With a table of relative positions, a task has all
// sequences, because they add to the same column of the table.
template <typename T>
void attention_grad(const KernelCall& k) {
  const Attributes& a = k.attributes();
  const Operands<T> operands(k);
  const std::int64_t group = a.heads / a.kv_heads;
  const std::int64_t sequences = operands.table == nullptr ? 1 : a.micro_batch;  // in a task
  const auto tasks = std::int64_t{a.micro_batch} * a.kv_heads / sequences;
  parallel_for(k.pool, tasks, 1, [&](std::int64_t task, std::int64_t) {
    alignas(64) Tiles<T> tiles;
    const std::int64_t begin = task / a.kv_heads * sequences, first = task % a.kv_heads * group;
    for (std::int64_t batch = begin; batch < begin + sequences; ++batch)
      for (std::int64_t head = first; head < first + group; ++head) {
        HeadInput<T> in(a, operands.heads, batch, head, k.context);
        if (operands.table != nullptr) in.relative.data = operands.table + head;
        in.documents = documents_of(k, batch);
        head_gradient(in, operands.at(a, batch, head), head == first, tiles);
      }
  });
  if (a.sinks) add_sink_gradients<T>(k, 3);
}

namespace {

// Computes the gradients of one head against the keys and values of one rank.
template <typename T>
void context_head_gradient(const KernelCall& k, const HeadInput<T>& in, const HeadGradient<T>& g,
                           int source, Tiles<T>& tiles) {
  const std::int64_t length = in.a.sequence_length / 2;
  for (int half = 0; half < 2; ++half)
    for (int key_half = 0; key_half < 2; ++key_half)
      for (std::int64_t i = 0; i < length; i += tile_length) {
        const std::int64_t i0 = half * length + i, rows = std::min(tile_length, length - i);
        const KeyHalf keys = key_half_of(in.a, rank_of_part(in.a, k.context.context_rank), half,
                                         source, key_half, i0 + rows);
        for (std::int64_t j0 = keys.begin; j0 < keys.end; j0 += tile_length) {
          const Tile tile = keys.tile(i0, rows, j0);
          if (!in.hides(tile)) tile_gradient(in, tile, g, {}, tiles);
        }
      }
}

}  // namespace

// Computes the gradients of one ring step or of all blocks, with one task per key-value head of a
// sequence. dq begins with the dq of earlier steps if that is an input, otherwise with 0. dk and dv
// begin with 0.
template <typename T>
void context_attention_grad(const KernelCall& k) {
  const Attributes& a = k.attributes();
  const std::int64_t s = a.sequence_length, q_row = std::int64_t{a.heads} * a.head_dim;
  const std::int64_t group = a.heads / a.kv_heads, half = std::int64_t{a.kv_heads} * a.head_dim;
  const ContextBlocks<T> blocks{a, k.in<T>(0), k.in<T>(1), rank_of_part(a, k.context.context_rank)};
  T* const dq = k.out<T>(0);
  T* const dkv = k.out<T>(1);
  std::fill_n(dkv, k.out_shape(1).elements(), T(0));
  if (inputs_but_documents(k.call) == 6 && !adds_sinks(a))
    std::copy_n(k.in<T>(5), k.out_shape(0).elements(), dq);
  else
    std::fill_n(dq, k.out_shape(0).elements(), T(0));
  parallel_for(
      k.pool, std::int64_t{a.micro_batch} * a.kv_heads, 1, [&](std::int64_t task, std::int64_t) {
        alignas(64) Tiles<T> tiles;
        const std::int64_t batch = task / a.kv_heads, kv_head = task % a.kv_heads;
        for (int index = 0; index < blocks.count(); ++index) {
          const ContextBlock<T> block = blocks[index];
          for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
            const std::int64_t query = batch * s * q_row + head * a.head_dim;
            T* const dk = dkv + (block.first_row + batch * s) * 2 * half + kv_head * a.head_dim;
            const HeadGradient<T> g{.y = k.in<T>(2) + query,
                                    .dy = k.in<T>(4) + query,
                                    .y_row = q_row,
                                    .saved = k.in<T>(3) + (batch * a.heads + head) * s,
                                    .dq = dq + query,
                                    .dk = dk,
                                    .dv = dk + half,
                                    .q_row = q_row,
                                    .k_row = 2 * half,
                                    .v_row = 2 * half};
            HeadInput<T> in(a, block.heads, batch, head, k.context);
            in.documents = documents_of(k, batch);
            context_head_gradient(k, in, g, block.source, tiles);
          }
        }
      });
  if (adds_sinks(a)) add_sink_gradients<T>(k, 2);
}

constexpr Row rows[] = {
    MESHWRIGHT_CPU_ROW(attention_grad),
    MESHWRIGHT_CPU_ROW(context_attention_grad),
};

std::span<const Row> attention_grad_rows() { return rows; }

}  // namespace meshwright::exec::cpu
