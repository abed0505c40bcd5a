// Token and position embeddings, which are rows of tables, and their gradients.
#include <algorithm>
#include <type_traits>

#include "exec/backends/cuda/rows/rows.cuh"
#include "exec/backends/cuda/tables.h"

namespace meshwright::exec::cuda {

namespace {

// Finds the row of a token in this rank's part of the table. of_token() returns -1 if this part
// does not have the row.
struct TableRows {
  const int* tokens;
  long long rows, first;

  TableRows(const KernelCall& k, std::int64_t table_rows)
      : tokens(k.in<int>(0)),
        rows(table_rows),
        first(k.attributes().vocabulary_parallel ? k.context.tensor_rank * table_rows : 0) {}
  __device__ long long of_token(int token) const {
    const long long row = token - first;
    return row >= 0 && row < rows ? row : -1;
  }
};

template <typename T>
struct Embed {
  using Element = T;
  TableRows rows;
  const T* table;
  T* y;
  long long width;

  struct Place {
    long long from, to;
  };
  __device__ Place place(long long token) const {
    return {rows.of_token(rows.tokens[token]) * width, token * width};
  }
  __device__ T* at(const Place& of, long long column) const { return y + of.to + column; }
  template <int n>
  __device__ Chunk<T, n> make(const Place& of, long long column) const {
    if (of.from < 0) return {};  // zeros
    return chunk_at<n>(table + of.from + column);
  }
};

void embedding(const KernelCall& k) {
  const std::int64_t width = k.in_shape(1)[1];
  with_vectors(k.call.inputs[1].dtype, width, [&]<typename T, int vector>() {
    for_each_row<vector>(k, k.in_shape(0).elements(), width,
                         Embed<T>{TableRows(k, k.in_shape(1)[0]), k.in<T>(1), k.out<T>(0), width});
  });
}

// ---- the gradient
//
// Each row of the table gets the sum of the dy of its tokens, in an order that does not depend on
// timing. First, note_tokens() notes the number of each row's tokens, the first and the last of
// them, and a list of them in any order. Then the warp or the block that has the first token of a
// row adds the gradients of all of the row's tokens. Up to 32 tokens are added by a warp, whose
// lanes sort the list. More are added by all warps of a block, each of which searches a part of the
// tokens between the first and the last one.

constexpr unsigned int few = 32;

struct Noted {
  unsigned int *count, *first, *last;  // for each row of the table
  int* head;                           // for each row: a token of its list, or -1 if it has none
  int* next;                           // for each token: the next one of its list, or -1
};

__global__ void note_tokens(TableRows rows, long long tokens, Noted noted) {
  const long long token = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (token >= tokens) return;
  const long long row = rows.of_token(rows.tokens[token]);
  if (row < 0) return;
  const auto place = static_cast<unsigned int>(token);
  atomicAdd(noted.count + row, 1u);
  atomicMin(noted.first + row, place);
  atomicMax(noted.last + row, place);
  noted.next[token] = atomicExch(noted.head + row, static_cast<int>(token));
}

template <typename T, typename To>
struct Gather {
  TableRows rows;
  Noted noted;
  const T* dy;
  To* table;
  long long width, tokens;

  // Adds the dy of up to four tokens, whose loads are in flight at once. A token of -1 adds
  // nothing.
  template <int vector>
  __device__ void add(const long long (&token)[4], long long column, float (&sum)[vector]) const {
    float part[4][vector];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < vector; ++j) part[i][j] = 0.0f;
      if (token[i] >= 0 && column < width) load<vector>(dy + token[i] * width + column, part[i]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < vector; ++j) sum[j] += part[i][j];
    }
  }

  // Adds the gradients of the row's tokens, in their order. There may be at most 32, one for each
  // lane of the warp.
  template <int vector>
  __device__ void add_list(long long row, long long column, float (&sum)[vector]) const {
    const int lane = threadIdx.x % 32, count = static_cast<int>(noted.count[row]);
    int own = 0x7fffffff;
    for (int i = 0, token = noted.head[row]; i < count; ++i) {
      if (lane == i) own = token;
      if (i + 1 < count) token = noted.next[token];
    }
    int place = 0;  // of the lane's token among the sorted tokens
    for (int i = 0; i < count; ++i) place += __shfl_sync(0xffffffffu, own, i) < own ? 1 : 0;
    for (int i = 0; i < count; i += 4) {
      long long token[4];
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const unsigned int holder = __ballot_sync(0xffffffffu, lane < count && place == i + n);
        const int found =
            __shfl_sync(0xffffffffu, own, holder == 0 ? 0 : __ffs(static_cast<int>(holder)) - 1);
        token[n] = holder == 0 ? -1 : found;
      }
      add(token, column, sum);
    }
  }

  // Adds the gradients of the tokens in [begin, end) whose number is `wanted`. The warp's lanes
  // look at 128 tokens at a time.
  template <int vector>
  __device__ void add_range(int wanted, long long begin, long long end, long long column,
                            float (&sum)[vector]) const {
    const int lane = threadIdx.x % 32;
    for (long long first = begin; first < end; first += 128) {
      bool is_wanted[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const long long token = first + 32 * i + lane;
        is_wanted[i] = token < end && rows.tokens[token] == wanted;
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        unsigned int lanes = __ballot_sync(0xffffffffu, is_wanted[i]);
        while (lanes != 0) {
          long long token[4];
#pragma unroll
          for (int n = 0; n < 4; ++n) {
            token[n] = lanes == 0 ? -1 : first + 32 * i + __ffs(static_cast<int>(lanes)) - 1;
            lanes &= lanes - 1;
          }
          add(token, column, sum);
        }
      }
    }
  }

  template <int vector>
  __device__ void add_to_table(long long row, long long column, const float (&sum)[vector]) const {
    float total[vector];
    To* to = table + row * width + column;
    load<vector>(to, total);
#pragma unroll
    for (int j = 0; j < vector; ++j) total[j] += sum[j];
    store<vector>(to, total);
  }
};

// Adds the gradients of table rows that have few tokens. Each warp has one token, and works if it
// is the first of its row. blockIdx.y selects 32 * vector columns.
template <int vector, typename T, typename To>
__global__ void __launch_bounds__(32 * warps_of_block) gather_few(Gather<T, To> gather) {
  const long long token = static_cast<long long>(blockIdx.x) * warps_of_block + threadIdx.x / 32;
  if (token >= gather.tokens) return;
  const long long row = gather.rows.of_token(gather.rows.tokens[token]);
  if (row < 0 || gather.noted.first[row] != token || gather.noted.count[row] > few) return;
  const long long column = (blockIdx.y * 32ll + threadIdx.x % 32) * vector;
  float sum[vector] = {};
  gather.template add_list<vector>(row, column, sum);
  if (column < gather.width) gather.template add_to_table<vector>(row, column, sum);
}

// Adds the gradients of table rows that have many tokens. A block visits some of the tokens. If one
// is the first of its row, the block's warps split the tokens from this one to the row's last.
template <int vector, typename T, typename To>
__global__ void __launch_bounds__(32 * warps_of_block) gather_many(Gather<T, To> gather) {
  __shared__ float of_warp[warps_of_block][32 * vector];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const long long column = (blockIdx.y * 32ll + lane) * vector;
  for (long long token = blockIdx.x; token < gather.tokens; token += gridDim.x) {
    const int wanted = gather.rows.tokens[token];
    const long long row = gather.rows.of_token(wanted);
    if (row < 0 || gather.noted.first[row] != token || gather.noted.count[row] <= few) continue;
    const long long end = gather.noted.last[row] + 1ll;
    const long long part = (end - token + warps_of_block - 1) / warps_of_block;
    const long long begin = token + warp * part;
    float sum[vector] = {};
    gather.template add_range<vector>(wanted, begin, min(begin + part, end), column, sum);
    __syncthreads();  // all threads have read earlier sums
#pragma unroll
    for (int j = 0; j < vector; ++j) of_warp[warp][lane * vector + j] = sum[j];
    __syncthreads();
    if (warp != 0 || column >= gather.width) continue;
#pragma unroll
    for (int j = 0; j < vector; ++j) {
      sum[j] = 0.0f;
      for (int w = 0; w < warps_of_block; ++w) sum[j] += of_warp[w][lane * vector + j];
    }
    gather.template add_to_table<vector>(row, column, sum);
  }
}

template <int vector, typename T, typename To>
void gather_rows(const KernelCall& k, const TableRows& rows, const Noted& noted) {
  const std::int64_t tokens = k.in_shape(0).elements(), width = k.in_shape(1)[1];
  const Gather<T, To> gather{rows, noted, k.in<T>(1), k.out<To>(0), width, tokens};
  const unsigned int tiles = blocks_for(width, 32 * vector);
  constexpr std::int64_t most_blocks = 1024;
  launch(gather_few<vector, T, To>, {blocks_for(tokens, warps_of_block), tiles},
         {32 * warps_of_block}, 0, k.stream, gather);
  launch(gather_many<vector, T, To>,
         {static_cast<unsigned int>(std::min(tokens, most_blocks)), tiles}, {32 * warps_of_block},
         0, k.stream, gather);
}

void embedding_grad(const KernelCall& k) {
  const std::int64_t tokens = k.in_shape(0).elements(), width = k.in_shape(1)[1];
  const std::int64_t table_rows = k.out_shape(0)[0];
  MESHWRIGHT_CHECK(tokens < 0x80000000ll, "tokens of a micro-batch are counted in 32 bits");
  const TableRows rows(k, table_rows);
  auto* words = k.workspace<unsigned int>();
  auto* lists = reinterpret_cast<int*>(words + 3 * table_rows);
  const Noted noted{words, words + table_rows, words + 2 * table_rows, lists, lists + table_rows};
  const auto fill = [&](auto* to, int byte) {
    check(cudaMemsetAsync(to, byte, static_cast<std::size_t>(table_rows) * sizeof *to, k.stream),
          "cudaMemsetAsync");
  };
  fill(noted.count, 0);
  fill(noted.first, 0xff);
  fill(noted.last, 0);
  fill(noted.head, 0xff);
  launch(note_tokens, {blocks_for(tokens, 256)}, {256}, 0, k.stream, rows, tokens, noted);
  with_vectors(k.call.inputs[1].dtype, width, [&]<typename T, int vector>() {
    with_type(k.call.outputs[0].dtype,
              [&]<typename To>(To) { gather_rows<vector, T, To>(k, rows, noted); });
  });
}

// ---- positions

// Returns the position of a row in its document, or in its sequence if `documents` is null.
// `documents` has an element for each row of all ranks of a tensor group, of which this rank may
// have only a share.
__device__ inline long long position_of(const TokenRows& tokens, const int* documents,
                                        long long row) {
  const long long place = tokens.position(row);
  return documents == nullptr ? place : place - documents[tokens.first_row + row];
}

template <typename T>
struct AddPosition {
  using Element = T;
  const T *x, *table;
  T* y;
  long long width, offset;
  TokenRows tokens;
  const int* documents;  // null: each sequence is one document

  struct Place {
    long long row, of_table;
  };
  __device__ Place place(long long row) const {
    return {row * width, (position_of(tokens, documents, row) + offset) * width};
  }
  __device__ T* at(const Place& of, long long column) const { return y + of.row + column; }
  template <int n>
  __device__ Chunk<T, n> make(const Place& of, long long column) const {
    float own[n], other[n];
    load<n>(x + of.row + column, own);
    load<n>(table + of.of_table + column, other);
#pragma unroll
    for (int j = 0; j < n; ++j) own[j] += other[j];
    return chunk_of<T>(own);
  }
};

void add_position(const KernelCall& k) {
  const std::int64_t rows = k.in_shape(0)[0], width = k.in_shape(0)[1];
  with_vectors(k.call.inputs[0].dtype, width, [&]<typename T, int vector>() {
    for_each_row<vector>(
        k, rows, width,
        AddPosition<T>{k.in<T>(0), k.in<T>(1), k.out<T>(0), width, k.attributes().position_offset,
                       TokenRows(k), k.documents()});
  });
}

// Adds the gradients of the rows that have a given position to this position's row of the table.
// These rows are a sequence apart.
template <typename T, typename To>
struct AddPositionGrad {
  using Element = To;
  const T* dy;
  To* table;
  long long rows, width, offset;
  TokenRows tokens;

  struct Place {
    long long row, of_table;
  };
  __device__ Place place(long long row) const {
    return {row, (tokens.position(row) + offset) * width};
  }
  __device__ To* at(const Place& of, long long column) const {
    return table + of.of_table + column;
  }
  template <int n>
  __device__ Chunk<To, n> make(const Place& of, long long column) const {
    constexpr int at_once = 8;
    float sum[n] = {}, part[n];
    for (long long first = of.row; first < rows; first += at_once * tokens.sequence_length) {
      // Past the end, row `first` is read again instead, because only loads without a condition are
      // issued together.
      Chunk<T, n> chunks[at_once];
#pragma unroll
      for (int i = 0; i < at_once; ++i) {
        const long long row = first + i * tokens.sequence_length;
        chunks[i] = chunk_at<n>(dy + (row < rows ? row : first) * width + column);
      }
#pragma unroll
      for (int i = 0; i < at_once; ++i) {
        if (first + i * tokens.sequence_length >= rows) continue;
#pragma unroll
        for (int j = 0; j < n; ++j) sum[j] += widened(chunks[i].element[j]);
      }
    }
    load<n>(at(of, column), part);
#pragma unroll
    for (int j = 0; j < n; ++j) sum[j] += part[j];
    return chunk_of<To>(sum);
  }
};

// Adds the gradients of the rows that have a given position in packed sequences. Any row may have
// it, so make() goes through all rows, in order.
template <typename T, typename To>
struct AddPackedPositionGrad {
  using Element = To;
  const T* dy;
  To* table;
  long long rows, width, offset;
  TokenRows tokens;
  const int* documents;

  __device__ long long place(long long position) const { return position; }
  __device__ To* at(long long position, long long column) const {
    return table + (position + offset) * width + column;
  }
  template <int n>
  __device__ Chunk<To, n> make(long long position, long long column) const {
    float sum[n] = {}, part[n];
    for (long long row = 0; row < rows; ++row) {
      if (position_of(tokens, documents, row) != position) continue;
      load<n>(dy + row * width + column, part);
#pragma unroll
      for (int j = 0; j < n; ++j) sum[j] += part[j];
    }
    load<n>(at(position, column), part);
#pragma unroll
    for (int j = 0; j < n; ++j) sum[j] += part[j];
    return chunk_of<To>(sum);
  }
};

// Runs f for each position. Because positions are few, the columns of one are split over warps,
// each of which has 32 * vector columns.
template <int vector, typename F>
__global__ void __launch_bounds__(32 * warps_of_block)
    positions_kernel(F f, long long positions, long long width) {
  const long long row = static_cast<long long>(blockIdx.x) * warps_of_block + threadIdx.x / 32;
  const long long column = (blockIdx.y * 32ll + threadIdx.x % 32) * vector;
  if (row >= positions || column >= width) return;
  const auto place = f.place(row);
  *reinterpret_cast<Chunk<typename F::Element, vector>*>(f.at(place, column)) =
      f.template make<vector>(place, column);
}

void add_position_grad(const KernelCall& k) {
  const Attributes& a = k.attributes();
  const std::int64_t rows = k.in_shape(0)[0], width = k.in_shape(0)[1];
  const std::int64_t length = a.sequence_length;
  const int* const documents = k.documents();
  const std::int64_t positions =
      documents == nullptr ? std::min(rows, length) : length * a.context_degree;
  with_vectors(k.call.inputs[0].dtype, width, [&]<typename T, int vector>() {
    with_type(k.call.outputs[0].dtype, [&]<typename To>(To) {
      const auto start = [&](const auto& sums) {
        launch(positions_kernel<vector, std::decay_t<decltype(sums)>>,
               {blocks_for(positions, warps_of_block), blocks_for(width, 32 * vector)},
               {32 * warps_of_block}, 0, k.stream, sums, positions, width);
      };
      const AddPositionGrad<T, To> whole{k.in<T>(0), k.out<To>(0),      rows,
                                         width,      a.position_offset, TokenRows(k)};
      if (documents == nullptr) return start(whole);
      start(AddPackedPositionGrad<T, To>{whole.dy, whole.table, rows, width, whole.offset,
                                         whole.tokens, documents});
    });
  });
}

constexpr Row rows[] = {
    {Op::embedding, embedding},
    {Op::embedding_grad, embedding_grad},
    {Op::add_position, add_position},
    {Op::add_position_grad, add_position_grad},
};

}  // namespace

std::span<const Row> embedding_rows() { return rows; }

}  // namespace meshwright::exec::cuda
