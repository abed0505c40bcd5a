// Attention, forward. The unfused kernel outputs the probabilities. Flash attention computes and
// uses scores tile by tile with a running maximum and sum (Dao et al., 2022) and saves only their
// log-sum-exp.
#include <array>
#include <limits>

#include "exec/backends/cpu/heads.h"
#include "exec/backends/cpu/reduce.h"
#include "exec/backends/cpu/tables.h"
#include "models/program/graph/context.h"
#include "models/program/graph/documents.h"

namespace meshwright::exec::cpu {

namespace {

template <typename T>
struct HeadOutput {
  T* y;  // the head in token 0's row
  std::int64_t row;
};

// Computes y[rows, value_dim] = beta * y + weights[rows, columns] v for the query rows of the tile.
template <typename T>
void weigh_values(const HeadInput<T>& in, const Tile& t, const T* weights, std::int64_t weights_row,
                  const HeadOutput<T>& out, T beta) {
  multiply(Product<T>{.m = t.rows,
                      .n = value_dim_of(in.a),
                      .k = t.columns,
                      .a = {weights, weights_row},
                      .b = {in.v + t.j0 * in.all.v.row, in.all.v.row},
                      .c = out.y + t.i0 * out.row,
                      .c_row = out.row,
                      .beta = beta});
}

// Computes the tile's rows of y from the probabilities after dropout. Dropout works on copies,
// because the gradient needs the whole probabilities.
template <typename T>
void weigh_dropped(const HeadInput<T>& in, const Tile& t, const T* probabilities,
                   std::int64_t weights_row, const HeadOutput<T>& out) {
  alignas(64) std::array<T, tile_length * tile_length> weights;
  for (std::int64_t j0 = 0; j0 < t.columns; j0 += tile_length) {
    const Tile part{t.i0, t.rows, j0, std::min(tile_length, t.columns - j0)};
    for (std::int64_t i = 0; i < part.rows; ++i)
      std::copy_n(probabilities + i * weights_row + j0, part.columns,
                  weights.data() + i * part.columns);
    in.drop(part, weights.data());
    weigh_values(in, part, weights.data(), part.columns, out, j0 == 0 ? T(0) : T(1));
  }
}

template <typename T>
void unfused_head(const HeadInput<T>& in, const HeadOutput<T>& out, T* probabilities) {
  const std::int64_t s = in.a.sequence_length;
  for (std::int64_t i0 = 0; i0 < s; i0 += tile_length) {
    const std::int64_t rows = std::min(tile_length, s - i0);
    const Tile t{i0, rows, 0, in.a.causal ? i0 + rows : s};
    T* block = probabilities + i0 * s;
    in.scores(t, block, s);
    for (std::int64_t i = 0; i < rows; ++i) {
      T* row = block + i * s;
      const std::int64_t visible = t.visible(in.a, i);
      const T maximum = maximum_of(row, visible);
      T sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t j = 0; j < visible; ++j) {
        row[j] = exp_of(row[j] - maximum);
        sum += row[j];
      }
      const T scale = T(1) / sum;
#pragma omp simd
      for (std::int64_t j = 0; j < visible; ++j) row[j] *= scale;
      std::fill(row + visible, row + s, T(0));
    }
    if (in.a.dropout > 0)
      weigh_dropped(in, t, block, s, out);
    else
      weigh_values(in, t, block, s, out, T(0));
  }
}

// The running maximum and the running sum of exp(score - maximum), for each query row of a tile.
template <typename T>
struct Running {
  std::array<T, tile_length> maximum, sum;
};

// Turns the tile's scores into exp(score - maximum) and updates the running maximum and sum. Unless
// this is the first tile of its rows, rescales the earlier sum and y to the new maximum.
template <typename T>
void update(const HeadInput<T>& in, const Tile& t, T* scores, Running<T>& running,
            const HeadOutput<T>& out, bool first) {
  for (std::int64_t i = 0; i < t.rows; ++i) {
    T* row = scores + i * t.columns;
    const std::int64_t visible = t.visible(in.a, i);
    T& maximum = running.maximum[i];
    T& sum = running.sum[i];
    const T before = maximum;
    maximum = std::max(maximum, maximum_of(row, visible));
    T added = 0;
    const T shift = maximum;
#pragma omp simd reduction(+ : added)
    for (std::int64_t j = 0; j < visible; ++j) {
      row[j] = exp_of(row[j] - shift);
      added += row[j];
    }
    std::fill(row + visible, row + t.columns, T(0));
    if (first) {
      sum = added;
      continue;
    }
    const T rescale = exp_of(before - shift);
    sum = sum * rescale + added;
    T* y = out.y + (t.i0 + i) * out.row;
#pragma omp simd
    for (std::int64_t c = 0; c < value_dim_of(in.a); ++c) y[c] *= rescale;
  }
}

template <typename T>
void add_tile(const HeadInput<T>& in, const Tile& t, T* scores, Running<T>& running,
              const HeadOutput<T>& out, bool first) {
  in.scores(t, scores, t.columns);
  update(in, t, scores, running, out, first);
  in.drop(t, scores);
  weigh_values(in, t, scores, t.columns, out, first ? T(0) : T(1));
}

template <typename T>
void finish_rows(const HeadInput<T>& in, std::int64_t i0, std::int64_t rows,
                 const Running<T>& running, const HeadOutput<T>& out, T* log_sums) {
  for (std::int64_t i = 0; i < rows; ++i) {
    T sum = running.sum[i], rescale = 1;
    T maximum = running.maximum[i];
    if (in.sink != nullptr) {
      const T before = maximum;
      maximum = std::max(maximum, *in.sink);
      rescale = exp_of(before - maximum);
      sum = sum * rescale + exp_of(*in.sink - maximum);
    }
    log_sums[i0 + i] = maximum + std::log(sum);
    T* y = out.y + (i0 + i) * out.row;
    for (std::int64_t c = 0; c < value_dim_of(in.a); ++c) y[c] *= rescale / sum;
  }
}

template <typename T>
void flash_head(const HeadInput<T>& in, const HeadOutput<T>& out, T* log_sums) {
  alignas(64) std::array<T, tile_length * tile_length> scores;
  Running<T> running;
  const std::int64_t s = in.a.sequence_length;
  for (std::int64_t i0 = 0; i0 < s; i0 += tile_length) {
    const std::int64_t rows = std::min(tile_length, s - i0);
    const std::int64_t keys = in.a.causal ? i0 + rows : s;
    running.maximum.fill(-std::numeric_limits<T>::infinity());
    const std::int64_t begin = in.first_column(i0);
    for (std::int64_t j0 = begin; j0 < keys; j0 += tile_length) {
      const Tile t{i0, rows, j0, std::min(tile_length, keys - j0)};
      add_tile(in, t, scores.data(), running, out, j0 == begin);
    }
    finish_rows(in, i0, rows, running, out, log_sums);
  }
}

// Ring attention's results of the earlier steps around the ring: the normalised y and its
// log-sum-exp. Both are null in the first step.
template <typename T>
struct Before {
  const T* y = nullptr;  // token 0's; rows as in the output
  const T* log_sums = nullptr;
};

// Computes query rows [i0, i0 + rows), all in one half of the tokens. Results of earlier steps are
// normalised, so they enter as a running sum of 1 whose maximum is their log-sum-exp.
template <typename T>
struct ContextRows {
  const KernelCall& k;
  const ContextBlocks<T>& blocks;
  std::int64_t batch, head;
  HeadOutput<T> out;
  T* log_sums;
  Before<T> before;

  void run(int half, std::int64_t i0, std::int64_t rows) const {
    alignas(64) std::array<T, tile_length * tile_length> scores;
    const Attributes& a = k.attributes();
    Running<T> running;
    running.maximum.fill(-std::numeric_limits<T>::infinity());
    bool first = before.y == nullptr;
    for (std::int64_t i = i0; i < i0 + rows && !first; ++i) {
      running.maximum[i - i0] = before.log_sums[i];
      running.sum[i - i0] = 1;
      std::copy_n(before.y + i * out.row, a.head_dim, out.y + i * out.row);
    }
    for (int index = 0; index < blocks.count(); ++index) {
      const ContextBlock<T> block = blocks[index];
      HeadInput<T> in(a, block.heads, batch, head, k.context);
      in.documents = documents_of(k, batch);
      for (int key_half = 0; key_half < 2; ++key_half) {
        const KeyHalf keys = key_half_of(a, blocks.rank, half, block.source, key_half, i0 + rows);
        for (std::int64_t j0 = keys.begin; j0 < keys.end; j0 += tile_length) {
          const Tile tile = keys.tile(i0, rows, j0);
          if (in.hides(tile)) continue;
          add_tile(in, tile, scores.data(), running, out, first);
          first = false;
        }
      }
    }
    HeadInput<T> in(a, blocks[0].heads, batch, head, k.context);
    if (adds_sinks(a)) in.sink = k.in<T>(2) + first_own_head(a, k.context.context_rank) + head;
    finish_rows(in, i0, rows, running, out, log_sums);
  }
};

}  // namespace

template <typename T>
void attention(const KernelCall& k) {
  const Attributes& a = k.attributes();
  const std::int64_t s = a.sequence_length, y_head = value_dim_of(a), y_row = a.heads * y_head;
  const bool packed = a.packing != Packing::separate;
  const T* const tensors[3] = {k.in<T>(0), packed ? nullptr : k.in<T>(1),
                               packed ? nullptr : k.in<T>(2)};
  const QueryKeyValue<const T> heads = heads_of<const T>(a, tensors);
  T* y = k.out<T>(0);
  T* saved = k.out<T>(1);
  const T* table = a.relative_buckets > 0 ? k.in<T>(3) : nullptr;
  parallel_for(k.pool, std::int64_t{a.micro_batch} * a.heads, 1,
               [&](std::int64_t task, std::int64_t) {
                 const std::int64_t batch = task / a.heads, head = task % a.heads;
                 HeadInput<T> in(a, heads, batch, head, k.context);
                 if (table != nullptr) in.relative.data = table + head;
                 if (a.sinks)
                   in.sink = k.in<T>(3) + first_own_head(a, k.context.context_rank) + head;
                 in.documents = documents_of(k, batch);
                 const HeadOutput<T> out{y + batch * s * y_row + head * y_head, y_row};
                 if (a.attention == AttentionKernel::unfused)
                   unfused_head(in, out, saved + task * s * s);
                 else
                   flash_head(in, out, saved + task * s);
               });
}

template <typename T>
void context_attention(const KernelCall& k) {
  const Attributes& a = k.attributes();
  const std::int64_t s = a.sequence_length, y_row = std::int64_t{a.heads} * a.head_dim;
  const ContextBlocks<T> blocks{a, k.in<T>(0), k.in<T>(1), rank_of_part(a, k.context.context_rank)};
  const bool continues = inputs_but_documents(k.call) == 4;
  parallel_for(
      k.pool, std::int64_t{a.micro_batch} * a.heads, 1, [&](std::int64_t task, std::int64_t) {
        const std::int64_t batch = task / a.heads, head = task % a.heads;
        const std::int64_t first = batch * s * y_row + head * a.head_dim;
        Before<T> before;
        if (continues) before = {k.in<T>(2) + first, k.in<T>(3) + task * s};
        const ContextRows<T> all{
            k, blocks, batch, head, {k.out<T>(0) + first, y_row}, k.out<T>(1) + task * s, before};
        for (int half = 0; half < 2; ++half)
          for (std::int64_t i = 0; i < s / 2; i += tile_length)
            all.run(half, half * (s / 2) + i, std::min(tile_length, s / 2 - i));
      });
}

constexpr Row rows[] = {
    MESHWRIGHT_CPU_ROW(attention),
    MESHWRIGHT_CPU_ROW(context_attention),
};

std::span<const Row> attention_rows() { return rows; }

}  // namespace meshwright::exec::cpu
