// Sums of tensors and of rows, dropout, and copies of chosen rows and columns.
#include <array>
#include <numeric>

#include "exec/backends/cuda/rows/column_sums.cuh"
#include "exec/backends/cuda/rows/map.cuh"
#include "exec/backends/cuda/rows/rows.cuh"
#include "exec/backends/cuda/tables.h"

namespace meshwright::exec::cuda {

namespace {

struct Add : Elementwise<2> {
  __device__ void operator()(const float* x, float* y) const { y[0] = x[0] + x[1]; }
};

void add(const KernelCall& k) { map(k, Add{}); }

// Computes y = x + added for every row of x. `added` is one row.
template <typename T>
struct AddRow {
  using Element = T;
  const T *x, *added;
  T* y;
  long long width;

  __device__ long long place(long long row) const { return row * width; }
  __device__ T* at(long long first, long long column) const { return y + first + column; }
  template <int n>
  __device__ Chunk<T, n> make(long long first, long long column) const {
    float own[n], other[n];
    load<n>(x + first + column, own);
    load<n>(added + column, other);
#pragma unroll
    for (int j = 0; j < n; ++j) own[j] += other[j];
    return chunk_of<T>(own);
  }
};

// Adds one row to every row of x: a bias, or row 0 of BERT's table of token types, whose other rows
// are unused.
void add_row(const KernelCall& k) {
  const std::int64_t rows = k.in_shape(0)[0], width = k.in_shape(0)[1];
  with_vectors(k.call.inputs[0].dtype, width, [&]<typename T, int vector>() {
    for_each_row<vector>(k, rows, width, AddRow<T>{k.in<T>(0), k.in<T>(1), k.out<T>(0), width});
  });
}

void bias_grad(const KernelCall& k) {
  const std::int64_t rows = k.in_shape(0)[0], width = k.in_shape(0)[1];
  with_vectors(k.call.inputs[0].dtype, width, [&]<typename T, int vector>() {
    add_column_sums<vector>(k, rows, width, OfRows<T>{k.in<T>(0), width}, 0);
  });
}

// Sets to 0 the elements that Philox chooses by a key, the sequence's number, the position and the
// column (prelude.cuh), so that nothing is saved for the gradient. The other elements are scaled.
template <typename T>
struct Drop {
  using Element = T;
  const T* x;
  T* y;
  long long width, first_column;
  TokenRows tokens;
  FirstSequence first_sequence;
  unsigned long long key;
  unsigned int threshold;
  float scale;

  struct Place {
    long long first, sequence, position;
  };
  __device__ Place place(long long row) const {
    const long long first = *first_sequence.of_step + first_sequence.offset;
    return {row * width, first + tokens.sequence(row), tokens.position(row)};
  }
  __device__ T* at(const Place& of, long long column) const { return y + of.first + column; }
  template <int n>
  __device__ Chunk<T, n> make(const Place& of, long long column) const {
    float part[n];
    unsigned int words[n];
    load<n>(x + of.first + column, part);
    random_words<n>(words, key, of.sequence, of.position, first_column + column);
#pragma unroll
    for (int j = 0; j < n; ++j) part[j] = words[j] < threshold ? 0.0f : part[j] * scale;
    return chunk_of<T>(part);
  }
};

// Applies dropout, both in the forward and in the backward pass: the gradient drops the same
// elements.
void dropout(const KernelCall& k) {
  const Attributes& a = k.attributes();
  const std::int64_t rows = k.in_shape(0)[0], width = k.in_shape(0)[1];
  const std::int64_t first_column = a.hidden_share ? k.context.tensor_rank * width : 0;
  with_vectors(k.call.inputs[0].dtype, width, [&]<typename T, int vector>() {
    const Drop<T> drop{k.in<T>(0),
                       k.out<T>(0),
                       width,
                       first_column,
                       TokenRows(k),
                       k.first_sequence,
                       a.dropout_key,
                       static_cast<unsigned int>(a.dropout * 0x1p32),
                       static_cast<float>(1 / (1 - a.dropout))};
    for_each_row<vector>(k, rows, width, drop);
  });
}

// Copies the rows of x at chosen positions. Positions count within their sequence.
template <typename T>
struct Select {
  using Element = T;
  const T* x;
  const int* positions;
  T* y;
  long long width, per_sequence, sequence_length;

  struct Place {
    long long from, to;
  };
  __device__ Place place(long long i) const {
    return {(i / per_sequence * sequence_length + positions[i]) * width, i * width};
  }
  __device__ T* at(const Place& of, long long column) const { return y + of.to + column; }
  template <int n>
  __device__ Chunk<T, n> make(const Place& of, long long column) const {
    return chunk_at<n>(x + of.from + column);
  }
};

void select_positions(const KernelCall& k) {
  const std::int64_t width = k.in_shape(0)[1];
  with_vectors(k.call.inputs[0].dtype, width, [&]<typename T, int vector>() {
    for_each_row<vector>(k, k.out_shape(0)[0], width,
                         Select<T>{k.in<T>(0), k.in<int>(1), k.out<T>(0), width, k.in_shape(1)[-1],
                                   k.attributes().sequence_length});
  });
}

// Writes the gradient of Select to each row: the sum of the gradients of all choices of the row's
// position, in the order of the choices. Rows that were not chosen get 0.
template <typename T>
struct Unselect {
  using Element = T;
  const T* dy;
  const int* positions;
  T* dx;
  long long width, per_sequence, sequence_length;

  struct Place {
    long long to, position, begin, end;  // [begin, end): choices, some of which are this row
  };
  __device__ Place place(long long row) const {
    const long long first = row / sequence_length * per_sequence, position = row % sequence_length;
    Place found = {row * width, position, first + per_sequence, first};
    for (long long i = 0; i < per_sequence; i += 32) {
      const long long own = first + i + threadIdx.x % 32;
      const unsigned int lanes =
          __ballot_sync(0xffffffffu, own < first + per_sequence && positions[own] == position);
      if (lanes == 0) continue;
      found.begin = min(found.begin, first + i + __ffs(static_cast<int>(lanes)) - 1);
      found.end = first + i + 32 - __clz(static_cast<int>(lanes));
    }
    return found;
  }
  __device__ T* at(const Place& of, long long column) const { return dx + of.to + column; }
  template <int n>
  __device__ Chunk<T, n> make(const Place& of, long long column) const {
    float sum[n] = {};
    for (long long i = of.begin; i < of.end; ++i) {
      if (positions[i] != of.position) continue;
      float part[n];
      load<n>(dy + i * width + column, part);
#pragma unroll
      for (int j = 0; j < n; ++j) sum[j] += part[j];
    }
    return chunk_of<T>(sum);
  }
};

void select_positions_grad(const KernelCall& k) {
  const std::int64_t width = k.in_shape(0)[1];
  with_vectors(k.call.inputs[0].dtype, width, [&]<typename T, int vector>() {
    for_each_row<vector>(k, k.out_shape(0)[0], width,
                         Unselect<T>{k.in<T>(0), k.in<int>(1), k.out<T>(0), width,
                                     k.in_shape(1)[-1], k.attributes().sequence_length});
  });
}

void sequence_slice(const KernelCall& k) {
  const std::int64_t bytes = k.call.outputs[0].bytes();
  check(cudaMemcpyAsync(k.out<char>(0), k.in<char>(0) + k.context.tensor_rank * bytes, bytes,
                        cudaMemcpyDeviceToDevice, k.stream),
        "cudaMemcpyAsync");
}

// Copies columns between whole rows and parts. Part i has, for all rows, rank i's columns of the
// first segment, then those of the second, and so on.
template <typename T>
struct Parts {
  using Element = T;
  const T* from;
  T* to;
  long long rows, width, part_width;
  long long counts[3];  // columns of each segment for a rank
  int ranks;
  bool to_parts;

  __device__ long long place(long long row) const { return row; }
  __device__ long long in_whole(long long row, long long column) const {
    return row * width + column;
  }
  __device__ long long in_part(long long row, long long column) const {
    long long in_segment = column, offset = 0, count = counts[0];
#pragma unroll
    for (int s = 1; s < 3; ++s) {
      if (in_segment < count * ranks) break;
      in_segment -= count * ranks;
      offset += count;
      count = counts[s];
    }
    return (in_segment / count * rows + row) * part_width + offset + in_segment % count;
  }
  __device__ T* at(long long row, long long column) const {
    return to + (to_parts ? in_part(row, column) : in_whole(row, column));
  }
  template <int n>
  __device__ Chunk<T, n> make(long long row, long long column) const {
    return chunk_at<n>(from + (to_parts ? in_whole(row, column) : in_part(row, column)));
  }
};

template <bool to_parts>
void move_parts(const KernelCall& k) {
  const Attributes& a = k.attributes();
  const Shape& whole = to_parts ? k.in_shape(0) : k.out_shape(0);
  const Shape& parts = to_parts ? k.out_shape(0) : k.in_shape(0);
  const std::int64_t rows = whole[0], width = whole[1], ranks = a.tensor_degree;
  std::array<std::int64_t, 3> segments = a.segments;
  if (segments[0] == 0) segments[0] = width;
  std::int64_t unit = width;
  for (std::int64_t& segment : segments) unit = std::gcd(unit, segment /= ranks);
  with_vectors(k.call.inputs[0].dtype, unit, [&]<typename T, int vector>() {
    for_each_row<vector>(k, rows, width,
                         Parts<T>{k.in<T>(0),
                                  k.out<T>(0),
                                  rows,
                                  width,
                                  parts[1],
                                  {segments[0], segments[1], segments[2]},
                                  static_cast<int>(ranks),
                                  to_parts});
  });
}

constexpr Row rows[] = {
    {Op::add, add},
    {Op::add_bias, add_row},
    {Op::add_row, add_row},
    {Op::add_row_grad, bias_grad},
    {Op::bias_grad, bias_grad},
    {Op::dropout, dropout},
    {Op::dropout_grad, dropout},
    {Op::select_positions, select_positions},
    {Op::select_positions_grad, select_positions_grad},
    {Op::sequence_slice, sequence_slice},
    {Op::columns_to_parts, move_parts<true>},
    {Op::parts_to_columns, move_parts<false>},
};

}  // namespace

std::span<const Row> elementwise_rows() { return rows; }

}  // namespace meshwright::exec::cuda
