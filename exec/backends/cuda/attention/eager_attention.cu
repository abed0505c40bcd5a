// Unfused attention as an eager framework computes it, without its matmuls (eager_products.cpp). A
// step on scores works on all score matrices [micro_batch * heads, s, s] at once.
#include <bit>

#include "exec/backends/cuda/attention/score_rows.cuh"
#include "exec/backends/cuda/rows/softmax.cuh"
#include "exec/backends/cuda/tables.h"
#include "models/program/graph/context.h"

namespace meshwright::exec::cuda {

namespace {

// The heads of queries, keys or values in a tensor of all heads: head h of token r begins at
// element first + r * row + h * head.
struct Together {
  int count;
  long long first, row, head;
};

Together together_of(const Attributes& a, std::size_t part, std::int64_t width) {
  const long long d = a.head_dim;
  const auto at = static_cast<long long>(part);
  switch (a.packing) {
    case Packing::separate:
      break;
    case Packing::per_head:
      return {part == 0 ? a.heads : a.kv_heads, at * d, width, 3 * d};
    case Packing::concatenated: {
      const long long before = part == 0 ? 0 : a.heads + (at - 1) * a.kv_heads;
      return {part == 0 ? a.heads : a.kv_heads, before * d, width, d};
    }
  }
  return {static_cast<int>(width / d), 0, width, d};
}

constexpr int move_threads = 256;

// Moves heads from a tensor of all heads to one with separate heads [sequences * heads, length, d],
// or back. A block moves chunks of one head of one sequence.
template <bool splits, int n, typename T>
__global__ void __launch_bounds__(move_threads)
    move_heads_kernel(const T* __restrict__ from, T* __restrict__ to, Together together, int length,
                      int d) {
  const int chunks = d / n, index = static_cast<int>(blockIdx.y * move_threads + threadIdx.x);
  if (index >= length * chunks) return;
  const int token = index / chunks, c = index % chunks * n;
  const int sequence = static_cast<int>(blockIdx.x) / together.count;
  const int head = static_cast<int>(blockIdx.x) % together.count;
  const long long packed = together.first +
                           (static_cast<long long>(sequence) * length + token) * together.row +
                           head * together.head + c;
  const long long apart = (static_cast<long long>(blockIdx.x) * length + token) * d + c;
  const Chunk<T, n>* source =
      reinterpret_cast<const Chunk<T, n>*>(from + (splits ? packed : apart));
  *reinterpret_cast<Chunk<T, n>*>(to + (splits ? apart : packed)) = *source;
}

template <bool splits, typename T>
void move_heads(const KernelCall& k, const T* from, T* to, const Together& together) {
  const Attributes& a = k.attributes();
  constexpr int n = vector_of<T>;
  const auto with = [&](auto count) {
    constexpr int moved = decltype(count)::value;
    const std::int64_t chunks = std::int64_t{a.sequence_length} * (a.head_dim / moved);
    const unsigned int blocks = blocks_for(chunks, move_threads);
    MESHWRIGHT_CHECK(blocks <= 0xffff, "a head's chunks fit the grid");
    launch(move_heads_kernel<splits, moved, T>,
           {blocks_for(std::int64_t{a.micro_batch} * together.count, 1), blocks}, {move_threads}, 0,
           k.stream, from, to, together, a.sequence_length, a.head_dim);
  };
  const bool in_groups = moves_groups<n>(from, a.head_dim) && moves_groups<n>(to, a.head_dim);
  in_groups ? with(Count<n>{}) : with(Count<1>{});
}

void split_heads(const KernelCall& k) {
  with_type(k.call.inputs[0].dtype, [&]<typename T>(T) {
    for (std::size_t part = 0; part < k.call.outputs.size(); ++part)
      move_heads<true>(k, k.in<T>(0), k.out<T>(part),
                       together_of(k.attributes(), part, k.in_shape(0)[1]));
  });
}

void join_heads(const KernelCall& k) {
  with_type(k.call.inputs[0].dtype, [&]<typename T>(T) {
    for (std::size_t part = 0; part < k.call.inputs.size(); ++part)
      move_heads<false>(k, k.in<T>(part), k.out<T>(0),
                        together_of(k.attributes(), part, k.out_shape(0)[1]));
  });
}

// Adds ALiBi's biases. The slopes are those of alibi_slope() in exec/backends/cpu/heads.h: 2^(-8
// (h+1) / n) for n heads, if n is a power of two. Otherwise the first p heads, with p the next
// lower power, have those of p heads, and the others the first, third, fifth, ... of 2p heads.
struct AddAlibi {
  ScoreRows rows;
  int first_head;  // this rank's first head, counted in the whole model
  int power;       // largest power of two up to the number of heads
  struct OfRow {
    float slope;
    int query;
  };
  __device__ OfRow of_row(long long row) const {
    const int head = first_head + rows.head(row);
    const int eighths = head < power ? -8 * (head + 1) : -4 * (2 * (head - power) + 1);
    return {exp2f(static_cast<float>(eighths) / static_cast<float>(power)), rows.query(row)};
  }
  template <int n>
  __device__ void apply(const OfRow& row, int key, float (&x)[n]) const {
#pragma unroll
    for (int j = 0; j < n; ++j) x[j] += row.slope * static_cast<float>(key + j - row.query);
  }
};

void add_alibi(const KernelCall& k) {
  const Attributes& a = k.attributes();
  const AddAlibi f{
      ScoreRows(k),
      static_cast<int>(first_head_of(a, k.context.tensor_rank, k.context.context_rank)),
      static_cast<int>(std::bit_floor(static_cast<unsigned int>(a.alibi_heads)))};
  with_type(k.call.inputs[0].dtype, [&]<typename T>(T) { map_rows(k, f, k.in<T>(0)); });
}

struct MaskScores {
  ScoreRows rows;
  float masked;
  int window, chunk;
  bool causal;
  const int* documents;  // null: each sequence is one document
  struct Seen {
    int first, last;
  };
  __device__ Seen of_row(long long row) const {
    const int query = rows.query(row);
    const int* const own =
        documents == nullptr ? nullptr : documents + rows.sequence(row) * rows.length;
    const int begin = own == nullptr ? 0 : own[query];
    int first = window > 0 ? max(begin, query - window + 1) : begin;
    if (chunk > 0) first = max(first, begin + (query - begin) / chunk * chunk);
    int last = query, end = causal ? query + 1 : rows.length;  // finds the last key of the document
    while (last + 1 < end) {
      const int middle = (last + end) / 2;
      (own[middle] == begin ? last : end) = middle;
    }
    return {first, last};
  }
  template <int n>
  __device__ void apply(const Seen& seen, int key, float (&x)[n]) const {
#pragma unroll
    for (int j = 0; j < n; ++j)
      if (key + j > seen.last || key + j < seen.first) x[j] = masked;
  }
};

void mask_scores(const KernelCall& k) {
  const MaskScores f{ScoreRows(k),          static_cast<float>(k.attributes().factor),
                     k.attributes().window, k.attributes().chunk,
                     k.attributes().causal, k.documents()};
  with_type(k.call.inputs[0].dtype, [&]<typename T>(T) { map_rows(k, f, k.in<T>(0)); });
}

// Applies dropout to probabilities or to their gradients. It drops the same elements in forward and
// backward, and the same as flash attention does.
struct Drop {
  ScoreRows rows;
  FirstSequence first_sequence;
  unsigned long long key;
  unsigned int threshold;
  float scale;
  int first_head;
  struct OfRow {
    long long sequence, row;
  };
  __device__ OfRow of_row(long long row) const {
    return {*first_sequence.of_step + first_sequence.offset + rows.sequence(row),
            static_cast<long long>(first_head + rows.head(row)) * rows.length + rows.query(row)};
  }
  template <int n>
  __device__ void apply(const OfRow& row, int column, float (&x)[n]) const {
    unsigned int words[n];
    random_words(words, key, row.sequence, row.row, column);
#pragma unroll
    for (int j = 0; j < n; ++j) x[j] = words[j] < threshold ? 0.0f : x[j] * scale;
  }
};

void drop_probabilities(const KernelCall& k) {
  const Attributes& a = k.attributes();
  const Drop f{ScoreRows(k),
               k.first_sequence,
               a.dropout_key,
               static_cast<unsigned int>(a.dropout * 0x1p32),
               static_cast<float>(1 / (1 - a.dropout)),
               static_cast<int>(first_head_of(a, k.context.tensor_rank, k.context.context_rank))};
  with_type(k.call.inputs[0].dtype, [&]<typename T>(T) { map_rows(k, f, k.in<T>(0)); });
}

template <int row_threads, typename T>
__global__ void __launch_bounds__(threads_of_block<row_threads>)
    softmax_kernel(const T* __restrict__ x, T* __restrict__ y, long long rows, int width,
                   bool in_groups) {
  const long long row = own_row<row_threads>();
  if (row >= rows) return;  // warps return as a whole
  const T* own = x + row * width;
  const ExpSum all = exp_sum_of_row<row_threads, vector_of<T>>(own, width, width, in_groups);
  const float factor = 1.0f / all.sum;
  for_columns<row_threads, vector_of<T>>(width, in_groups, [&](int c, auto count) {
    constexpr int n = decltype(count)::value;
    float made[n];
    load<n>(own + c, made);
#pragma unroll
    for (int j = 0; j < n; ++j) made[j] = exp_below_0(made[j] - all.maximum) * factor;
    store<n>(y + row * width + c, made);
  });
}

void softmax(const KernelCall& k) {
  const int width = width_of(k.in_shape(0)[-1]);
  const std::int64_t rows = k.in_shape(0).elements() / width;
  with_type(k.call.inputs[0].dtype, [&]<typename T>(T) {
    const bool in_groups = moves_groups<vector_of<T>>(k.in<T>(0), width) &&
                           moves_groups<vector_of<T>>(k.out<T>(0), width);
    for_rows(rows, width, [&](auto row_threads, Shape3 blocks, Shape3 threads) {
      launch(softmax_kernel<decltype(row_threads)::value, T>, blocks, threads, 0, k.stream,
             k.in<T>(0), k.out<T>(0), rows, width, in_groups);
    });
  });
}

template <int row_threads, typename T>
__global__ void __launch_bounds__(threads_of_block<row_threads>)
    softmax_grad_kernel(const T* __restrict__ y, const T* __restrict__ dy, T* __restrict__ dx,
                        long long rows, int width, bool in_groups) {
  const long long row = own_row<row_threads>();
  if (row >= rows) return;
  const long long begin = row * width;
  float mean = 0;
  for_columns<row_threads, vector_of<T>>(width, in_groups, [&](int c, auto count) {
    constexpr int n = decltype(count)::value;
    float p[n], d[n];
    load<n>(y + begin + c, p);
    load<n>(dy + begin + c, d);
#pragma unroll
    for (int j = 0; j < n; ++j) mean += p[j] * d[j];
  });
  mean = sum_over_row<row_threads>(mean);
  for_columns<row_threads, vector_of<T>>(width, in_groups, [&](int c, auto count) {
    constexpr int n = decltype(count)::value;
    float p[n], d[n];
    load<n>(y + begin + c, p);
    load<n>(dy + begin + c, d);
#pragma unroll
    for (int j = 0; j < n; ++j) d[j] = p[j] * (d[j] - mean);
    store<n>(dx + begin + c, d);
  });
}

void softmax_grad(const KernelCall& k) {
  const int width = width_of(k.in_shape(0)[-1]);
  const std::int64_t rows = k.in_shape(0).elements() / width;
  with_type(k.call.inputs[0].dtype, [&]<typename T>(T) {
    constexpr int n = vector_of<T>;
    const bool in_groups = moves_groups<n>(k.in<T>(0), width) &&
                           moves_groups<n>(k.in<T>(1), width) &&
                           moves_groups<n>(k.out<T>(0), width);
    for_rows(rows, width, [&](auto row_threads, Shape3 blocks, Shape3 threads) {
      launch(softmax_grad_kernel<decltype(row_threads)::value, T>, blocks, threads, 0, k.stream,
             k.in<T>(0), k.in<T>(1), k.out<T>(0), rows, width, in_groups);
    });
  });
}

constexpr Row rows[] = {
    {Op::split_heads, split_heads},
    {Op::join_heads, join_heads},
    {Op::add_alibi, add_alibi},
    {Op::mask_scores, mask_scores},
    {Op::softmax, softmax},
    {Op::softmax_grad, softmax_grad},
    {Op::drop_probabilities, drop_probabilities},
    {Op::drop_probabilities_grad, drop_probabilities},
};

}  // namespace

std::span<const Row> eager_attention_rows() { return rows; }

}  // namespace meshwright::exec::cuda
