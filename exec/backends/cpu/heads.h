// Finds the queries, keys and values of each head in the operands of attention, and computes scores
// from them.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "exec/backends/backend.h"
#include "exec/backends/cpu/dropout.h"
#include "exec/backends/cpu/gemm.h"
#include "exec/backends/cpu/kernels.h"
#include "exec/backends/cpu/math.h"
#include "exec/backends/cpu/relative.h"
#include "models/core/error.h"
#include "models/program/graph/attributes.h"
#include "models/program/graph/context.h"

namespace meshwright::exec::cpu {

// The heads of one of q, k, v and y: head h of token r begins at data + r * row + h * head.
template <typename T>
struct Heads {
  T* data = nullptr;
  std::int64_t row = 0, head = 0;
  T* at(std::int64_t token, std::int64_t h) const { return data + token * row + h * head; }
};

template <typename T>
struct QueryKeyValue {
  Heads<T> q, k, v;
};

// Returns the heads of queries, keys and values in the operands of attention: one packed tensor, or
// the three in `tensors`.
template <typename T>
QueryKeyValue<T> heads_of(const Attributes& a, T* const tensors[3]) {
  const std::int64_t dim = a.head_dim, heads = a.heads, kv_heads = a.kv_heads;
  MESHWRIGHT_CHECK(kv_heads > 0 && heads % kv_heads == 0,
                   "query heads share key-value heads evenly");
  MESHWRIGHT_CHECK(a.packing != Packing::per_head || kv_heads == heads,
                   "packed by head, each head has keys and values");
  switch (a.packing) {
    case Packing::concatenated: {
      const std::int64_t row = (heads + 2 * kv_heads) * dim;
      T* qkv = tensors[0];
      return {{qkv, row, dim},
              {qkv + heads * dim, row, dim},
              {qkv + (heads + kv_heads) * dim, row, dim}};
    }
    case Packing::per_head: {
      const std::int64_t row = heads * 3 * dim;
      T* qkv = tensors[0];
      return {{qkv, row, 3 * dim}, {qkv + dim, row, 3 * dim}, {qkv + 2 * dim, row, 3 * dim}};
    }
    case Packing::separate:
      break;
  }
  return {{tensors[0], heads * dim, dim},
          {tensors[1], kv_heads * dim, dim},
          {tensors[2], kv_heads * value_dim_of(a), value_dim_of(a)}};
}

// Returns ALiBi's slope of head `head` in a model with `heads` heads (Press et al., 2022). If the
// number n of heads is a power of two, the slope of head h is 2^(-8 (h+1) / n). Otherwise, with p
// the next lower power of two, the first p heads have the slopes of a model with p heads, and the
// others every second slope of a model with 2p heads.
inline double alibi_slope(std::int64_t head, std::int64_t heads) {
  const std::int64_t power =
      static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(heads)));
  const double exponent =
      head < power
          ? -8.0 * static_cast<double>(head + 1) / static_cast<double>(power)
          : -4.0 * static_cast<double>(2 * (head - power) + 1) / static_cast<double>(power);
  return std::exp2(exponent);
}

// Returns the position of the first key that a query may see within its window and its chunk. Both
// positions are counted from the start of the document. Returns 0 if there is neither a window nor
// a chunk.
inline std::int64_t first_seen(const Attributes& a, std::int64_t place) {
  std::int64_t first = 0;
  if (a.window > 0) first = std::max(first, place - a.window + 1);
  if (a.chunk > 0) first = std::max(first, place / a.chunk * a.chunk);
  return first;
}

// Returns, for each token of one sequence, the index at which its document begins, or null if the
// operation has no documents.
inline const std::int32_t* documents_of(const KernelCall& k, std::int64_t batch) {
  const std::int32_t* all = k.documents();
  return all == nullptr ? nullptr : all + batch * k.attributes().sequence_length;
}

// The inputs of one query head of one sequence: the addresses of q, k and v of token 0, and all
// that turns products of queries and keys into scores.
template <typename T>
struct HeadInput {
  const Attributes& a;
  const T* q;
  const T* k;
  const T* v;
  QueryKeyValue<const T> all;  // for the elements from row to row
  T scale = 1;
  T slope = 0;
  RelativeColumn<const T> relative{a};      // data is null without a table
  const T* sink = nullptr;                  // this head's; null: none
  const std::int32_t* documents = nullptr;  // this sequence's; null: none
  std::int64_t sequence = 0, head = 0;      // numbers in the whole run and model

  HeadInput(const Attributes& attributes, const QueryKeyValue<const T>& heads, std::int64_t batch,
            std::int64_t own_head, const OpContext& context)
      : a(attributes),
        all(heads),
        sequence(context.first_sequence + batch),
        head(first_head_of(a, context.tensor_rank, context.context_rank) + own_head) {
    const std::int64_t token = batch * a.sequence_length;
    const std::int64_t kv_head = own_head / (a.heads / a.kv_heads);
    q = heads.q.at(token, own_head);
    k = heads.k.at(token, kv_head);
    v = heads.v.at(token, kv_head);
    scale = static_cast<T>(score_scale(a));
    if (a.alibi) slope = static_cast<T>(alibi_slope(head, a.alibi_heads));
  }

  // Applies dropout to weights[rows, columns], which are the tile's probabilities or their
  // gradients. Leaves them as they are if the attention has no dropout.
  void drop(const Tile& t, T* weights) const {
    if (a.dropout == 0) return;
    const Dropout mask(a);
    const std::int64_t whole_length = a.sequence_length * a.context_degree;
    for (std::int64_t i = 0; i < t.rows; ++i) {
      T* row = weights + i * t.columns;
      mask.apply(row, row, t.columns, sequence, head * whole_length + t.i0 + i + t.query_shift,
                 t.j0 + t.key_shift);
    }
  }

  // Writes scores[rows, columns] = q k^T * scale, bounded by the cap if there is one, plus ALiBi's
  // slope * (j - i) or the bias of the distance j - i. Hides keys outside of a window, a chunk or a
  // document, but does not apply the causal mask. If scores are capped and `slopes` is given,
  // writes to slopes[rows, columns] (dense) the cap's derivative with respect to q k^T * scale.
  void scores(const Tile& t, T* scores, std::int64_t scores_row, T* slopes = nullptr) const {
    multiply(Product<T>{.m = t.rows,
                        .n = t.columns,
                        .k = a.head_dim,
                        .a = {q + t.i0 * all.q.row, all.q.row},
                        .b = {k + t.j0 * all.k.row, all.k.row, true},
                        .c = scores,
                        .c_row = scores_row,
                        .alpha = scale});
    if (a.score_cap > 0) cap(t, scores, scores_row, slopes);
    if (relative.data != nullptr) add_relative(relative, t, scores, scores_row);
    if (slope != T(0)) {
      for (std::int64_t i = 0; i < t.rows; ++i)
        for (std::int64_t j = 0; j < t.columns; ++j)
          scores[i * scores_row + j] += slope * static_cast<T>(t.j0 + j - t.i0 - i - t.ahead());
    }
    if (a.window > 0 || a.chunk > 0 || documents != nullptr) hide(t, scores, scores_row);
  }

  // Returns the column at which the first tile begins that queries from row i0 on need. Earlier
  // tiles hold only keys of earlier documents. Must not be called in a context group, whose ranks
  // hold parts of sequences.
  std::int64_t first_column(std::int64_t i0) const {
    return documents == nullptr ? 0 : documents[i0] / tile_length * tile_length;
  }
  // Returns whether all keys of the tile come before the document of its first query, and so before
  // the documents of all its queries. Returns false without documents.
  bool hides(const Tile& t) const {
    return documents != nullptr && t.j0 + t.columns + t.key_shift <= documents[t.i0];
  }

  void cap(const Tile& t, T* scores, std::int64_t scores_row, T* slopes) const {
    const T most = static_cast<T>(a.score_cap), inverse = static_cast<T>(1 / a.score_cap);
    for (std::int64_t i = 0; i < t.rows; ++i) {
      T* row = scores + i * scores_row;
      if (slopes != nullptr) {
        T* of_row = slopes + i * t.columns;
#pragma omp simd
        for (std::int64_t j = 0; j < t.columns; ++j) of_row[j] = tanh_slope_of(row[j] * inverse);
      }
#pragma omp simd
      for (std::int64_t j = 0; j < t.columns; ++j) row[j] = most * tanh_of(row[j] * inverse);
    }
  }

  // Sets the scores of hidden keys to -1e30: keys before the first that a query sees and, without a
  // causal mask, keys of later documents. The value is finite because a row of a tile may have only
  // hidden keys. Scores of other tiles then outweigh it.
  void hide(const Tile& t, T* scores, std::int64_t scores_row) const {
    constexpr T hidden = T(-1e30);
    for (std::int64_t i = 0; i < t.rows; ++i) {
      const std::int64_t place = t.i0 + i + t.query_shift, to_column = t.key_shift + t.j0;
      const std::int64_t begin = documents == nullptr ? 0 : documents[t.i0 + i];
      const std::int64_t first = begin + first_seen(a, place - begin) - to_column;
      std::fill_n(scores + i * scores_row, std::clamp<std::int64_t>(first, 0, t.columns), hidden);
      if (a.causal || documents == nullptr) continue;
      const std::int32_t* const keys = documents + t.j0;
      const std::int64_t end = std::upper_bound(keys, keys + t.columns, begin) - keys;
      std::fill(scores + i * scores_row + end, scores + i * scores_row + t.columns, hidden);
    }
  }
};

// The queries of a rank of a context group, with the keys and values of one rank of the group,
// which may be the same rank.
template <typename T>
struct ContextBlock {
  int source = 0;              // the rank whose keys and values these are
  std::int64_t first_row = 0;  // in the tensor of keys and values
  QueryKeyValue<const T> heads;
};

// Finds the blocks of a context group's attention, in q or qkv and in the keys and values [rows of
// one rank or of all, 2 * kv_heads * head_dim]. Blocks come in the order in which a ring brings
// them, so that a ring and a gather of all keys give the same bits.
template <typename T>
struct ContextBlocks {
  const Attributes& a;
  const T* queries;
  const T* kv;
  int rank;

  int count() const { return a.ring_step >= 0 ? 1 : a.context_degree; }
  ContextBlock<T> operator[](int index) const {
    const int step = a.ring_step >= 0 ? a.ring_step : index;
    const int source = (rank + a.context_degree - step) % a.context_degree;
    const std::int64_t rows = std::int64_t{a.micro_batch} * a.sequence_length;
    const std::int64_t first_row = a.ring_step >= 0 ? 0 : source * rows;
    const std::int64_t half = std::int64_t{a.kv_heads} * a.head_dim;
    const T* const tensors[3] = {queries, kv, kv};
    const T* block = kv + first_row * 2 * half;
    return {source,
            first_row,
            {heads_of<const T>(a, tensors).q,
             {block, 2 * half, a.head_dim},
             {block + half, 2 * half, a.head_dim}}};
  }
};

// Half of the keys of one rank, as seen by the queries in one half of this or another rank's
// tokens.
struct KeyHalf {
  std::int64_t begin = 0, end = 0;              // rows of keys; empty if the mask hides all
  std::int64_t query_shift = 0, key_shift = 0;  // as in Tile

  // Returns the tile of query rows [i0, i0 + rows) and of up to tile_length keys from row j0 on.
  Tile tile(std::int64_t i0, std::int64_t rows, std::int64_t j0) const {
    return {i0, rows, j0, std::min(tile_length, end - j0), query_shift, key_shift};
  }
};

// Returns the keys in half `key_half` of rank `source` that the query rows before `end_row`, in
// half `half` of rank `rank`, may see. The range is empty if the mask hides all of them.
inline KeyHalf key_half_of(const Attributes& a, int rank, int half, int source, int key_half,
                           std::int64_t end_row) {
  const std::int64_t held = a.sequence_length, length = held / 2;
  const auto shift = [&](int of, int which) {
    return context_half_begin(a.context_degree, of, held, which) - which * length;
  };
  KeyHalf keys{key_half * length, (key_half + 1) * length, shift(rank, half),
               shift(source, key_half)};
  const std::int64_t first_hidden = end_row + keys.query_shift - keys.key_shift;
  if (a.causal) keys.end = std::clamp(first_hidden, keys.begin, keys.end);
  return keys;
}

}  // namespace meshwright::exec::cpu
