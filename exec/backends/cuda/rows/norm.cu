// LayerNorm and RMSNorm, over rows or over each head of a row (norm.cuh). Rows that fit into the
// registers of a block, and that consist of whole 16-byte pieces, are read once.
#include "exec/backends/cuda/rows/norm.cuh"
#include "exec/backends/cuda/tables.h"

namespace meshwright::exec::cuda {

namespace {

// The number of columns that each thread holds if a block has one row.
constexpr int columns_of_thread = columns_of_norm_thread;

// The columns of a row that one of its `threads` threads holds: `turns` pieces of 16 bytes. Columns
// beyond the width are 0.
template <typename T, int threads, int columns = columns_of_thread>
struct Held {
  static constexpr int vector = vector_of<T>, turns = columns / vector;
  Packed<T, vector> packed[turns];

  __device__ static long long column(int turn) {
    return (turn * threads + threadIdx.x % threads) * vector;
  }
  __device__ void read(const T* row, long long width) {
#pragma unroll
    for (int turn = 0; turn < turns; ++turn) {
      packed[turn] = {};
      if (column(turn) < width) packed[turn] = packed_at<vector>(row + column(turn));
    }
  }
  __device__ void widen(float (&to)[turns][vector]) const {
#pragma unroll
    for (int turn = 0; turn < turns; ++turn) cuda::widen(packed[turn], to[turn]);
  }
};

template <typename T>
struct Forward {
  const T *x, *weight, *bias;
  T* y;
  float* saved;
  long long rows, width;
  float epsilon, offset;
};

// The number of warps of a block if each warp has one row.
constexpr int norm_warps = 4;

// Normalizes rows that are held in registers. With `threads` = 32 a warp has a row, otherwise a
// block.
template <typename T, int threads, int columns, bool rms>
__global__ void __launch_bounds__(threads == 32 ? 32 * norm_warps : threads)
    norm_held(Forward<T> k) {
  using Row = Held<T, threads, columns>;
  const long long row = threads == 32
                            ? static_cast<long long>(blockIdx.x) * norm_warps + threadIdx.x / 32
                            : blockIdx.x;
  if (row >= k.rows) return;
  Row held;
  held.read(k.x + row * k.width, k.width);
  float x[Row::turns][Row::vector];
  held.widen(x);
  float mean = 0.0f;
  if constexpr (!rms) {
    float sum[1] = {};
#pragma unroll
    for (int turn = 0; turn < Row::turns; ++turn)
#pragma unroll
      for (int j = 0; j < Row::vector; ++j) sum[0] += x[turn][j];
    add_over_row<threads>(sum, 0);
    mean = sum[0] / static_cast<float>(k.width);
  }
  float squares[1] = {};
#pragma unroll
  for (int turn = 0; turn < Row::turns; ++turn) {
    if (Row::column(turn) >= k.width) continue;
#pragma unroll
    for (int j = 0; j < Row::vector; ++j) squares[0] += square(x[turn][j] - mean);
  }
  add_over_row<threads>(squares, 1);
  const Statistics of = {mean, rsqrtf(squares[0] / static_cast<float>(k.width) + k.epsilon)};
  if (threadIdx.x % threads == 0) store_statistics<rms>(k.saved, row, of);
#pragma unroll
  for (int turn = 0; turn < Row::turns; ++turn) {
    const long long column = Row::column(turn);
    if (column < k.width)
      store_normed(x[turn], of, k.weight + column, k.offset,
                   k.bias == nullptr ? k.bias : k.bias + column, k.y + row * k.width + column);
  }
}

template <typename T, int vector, bool rms>
__global__ void __launch_bounds__(any_threads) norm_any(Forward<T> k) {
  const long long row = blockIdx.x;
  const T* x = k.x + row * k.width;
  const float mean = rms ? 0.0f : row_mean<vector>(x, k.width);
  const float squares = row_squares<vector>(x, k.width, mean);
  const Statistics of = {mean, rsqrtf(squares / static_cast<float>(k.width) + k.epsilon)};
  if (threadIdx.x == 0) store_statistics<rms>(k.saved, row, of);
  write_normed<vector>(x, k.width, of, k.weight, k.offset, k.bias, k.y + row * k.width);
}

template <typename T>
struct Backward {
  const T *x, *weight, *dy;
  const float* saved;
  T* dx;
  long long rows, width;
  RowChunks chunks;
  float* partial;  // [weight, bias][chunk][column]
  bool has_bias;
  float offset;
};

// Computes gradients of rows that are held in registers. A block has a chunk of rows and keeps its
// columns' sums for the parameters' gradients. While the block works on a row of 16-bit elements,
// loads of the next two rows are in flight, or of the next one if the block has more than 192
// threads. For fp32 that would take too many registers.
template <typename T, int threads, bool rms>
__global__ void __launch_bounds__(threads, norm_grad_blocks_at_once(threads))
    norm_grad_held(Backward<T> k) {
  using Row = Held<T, threads>;
  constexpr int turns = Row::turns, vector = Row::vector;
  constexpr int ahead = sizeof(T) > 2 ? 0 : threads > 192 ? 1 : 2, at_once = ahead > 1 ? 2 : 1;
  constexpr bool early_statistics = threads <= 256;  // larger blocks have too few registers
  struct Operands {
    Row x, dy;
    Statistics of;
  };
  float of_weight[turns][vector] = {}, of_bias[turns][vector] = {};
  Row held_weight;
  Operands held[at_once];
  const auto read_row = [&](long long row, Operands& to) {
    to.x.read(k.x + row * k.width, k.width);
    to.dy.read(k.dy + row * k.width, k.width);
    if (early_statistics) to.of = load_statistics<rms>(k.saved, row);
  };
  const long long begin = blockIdx.x * k.chunks.rows_of_chunk;
  const long long end = min(begin + k.chunks.rows_of_chunk, k.rows);
  const auto one_row = [&](long long row, Operands& own, int turn_of_sums) {
    float weight[turns][vector], x[turns][vector], g[turns][vector];
    held_weight.widen(weight);
    own.x.widen(x);
    own.dy.widen(g);
    const Statistics of = early_statistics ? own.of : load_statistics<rms>(k.saved, row);
    if (ahead > 0 && row + ahead < end) read_row(row + ahead, own);
    float sums[2] = {};
#pragma unroll
    for (int turn = 0; turn < turns; ++turn)
#pragma unroll
      for (int j = 0; j < vector; ++j) {
        const float z = (x[turn][j] - of.mean) * of.scale;
        of_weight[turn][j] += g[turn][j] * z;
        if (!rms) of_bias[turn][j] += g[turn][j];
        g[turn][j] *= k.offset + weight[turn][j];
        sums[0] += g[turn][j];
        sums[1] += g[turn][j] * z;
      }
    add_over_row<threads>(sums, turn_of_sums);
    const float mean_g = rms ? 0.0f : sums[0] / static_cast<float>(k.width);
    const float mean_gz = sums[1] / static_cast<float>(k.width);
#pragma unroll
    for (int turn = 0; turn < turns; ++turn) {
      const long long column = Row::column(turn);
      if (column < k.width)
        store_gradient(x[turn], g[turn], of, mean_g, mean_gz, k.dx + row * k.width + column);
    }
    if (ahead == 0 && row + 1 < end) {
      held_weight.read(again(k.weight), k.width);
      read_row(row + 1, own);
    }
  };
  held_weight.read(k.weight, k.width);
#pragma unroll
  for (int i = 0; i < at_once; ++i)
    if (begin + i < end) read_row(begin + i, held[i]);
#pragma unroll 1
  for (long long row = begin; row < end; row += at_once) {
    one_row(row, held[0], at_once > 1 ? 0 : static_cast<int>(row) & 1);
    if (at_once > 1 && row + 1 < end) one_row(row + 1, held[at_once - 1], 1);
  }
#pragma unroll
  for (int turn = 0; turn < turns; ++turn) {
    const long long column = Row::column(turn);
    if (column >= k.width) continue;
    float* to = k.partial + blockIdx.x * k.width + column;
    store<vector>(to, of_weight[turn]);
    if (k.has_bias) store<vector>(to + k.chunks.chunks * k.width, of_bias[turn]);
  }
}

template <typename T, int vector, bool rms>
__global__ void __launch_bounds__(any_threads) norm_grad_any(Backward<T> k) {
  const long long row = blockIdx.x, first = row * k.width;
  const Statistics of = load_statistics<rms>(k.saved, row);
  const GradientSums sums =
      row_gradient_sums<vector>(k.x + first, k.weight, k.offset, k.dy + first, k.width, of);
  const auto width = static_cast<float>(k.width);
  write_gradient<vector>(k.x + first, k.weight, k.offset, k.dy + first, k.width, of,
                         rms ? 0.0f : sums.g / width, sums.gz / width, k.dx + first);
}

// Calls work.operator()<v>() with the first of the values that is at least `least`, or else with
// the last value.
template <int value, int... larger, typename Work>
void with_first(std::int64_t least, Work work) {
  if constexpr (sizeof...(larger) > 0)
    if (least > value) return with_first<larger...>(least, work);
  work.template operator()<value>();
}

template <bool rms, typename T>
void start_norm_held(const KernelCall& k, const Forward<T>& forward) {
  constexpr int most_of_warp = 48;
  if (forward.width <= 32 * most_of_warp)
    return with_first<8, 16, 24, 32, most_of_warp>((forward.width + 31) / 32, [&]<int columns>() {
      launch(norm_held<T, 32, columns, rms>, {blocks_for(forward.rows, norm_warps)},
             {32 * norm_warps}, 0, k.stream, forward);
    });
  with_first<256, 512, 1024>(norm_threads(forward.width), [&]<int threads>() {
    launch(norm_held<T, threads, columns_of_thread, rms>, {blocks_for(forward.rows, 1)}, {threads},
           0, k.stream, forward);
  });
}

// The weights of a norm, and a number that is added to each. A norm without weights has weights 0,
// to which 1 is added.
template <typename T>
struct NormWeight {
  const T* data;
  float offset;

  explicit NormWeight(const KernelCall& k) : offset(offset_of(k.attributes())) {
    const std::size_t place = NormOperands(k.call.op).weight;
    if (k.call.inputs.size() > place) {
      data = k.in<T>(place);
      return;
    }
    const UnitWeight unit(k.call);
    std::byte* const zeros = k.workspace<std::byte>() + unit.begin;
    check(cudaMemsetAsync(zeros, 0, unit.bytes, k.stream), "cudaMemsetAsync");
    data = reinterpret_cast<const T*>(zeros);
    offset = 1.0f;
  }
};

template <bool rms>
void norm(const KernelCall& k) {
  const NormRows of(k);
  const std::int64_t rows = of.count, width = of.width;
  with_vectors(k.call.inputs[0].dtype, width, [&]<typename T, int vector>() {
    const NormWeight<T> weight(k);
    const Forward<T> forward{k.in<T>(0),
                             weight.data,
                             k.call.inputs.size() > 2 ? k.in<T>(2) : nullptr,
                             k.out<T>(0),
                             k.out<float>(1),
                             rows,
                             width,
                             static_cast<float>(k.attributes().epsilon),
                             weight.offset};
    if constexpr (vector > 1) {
      if (width <= longest_held_row) return start_norm_held<rms>(k, forward);
    }
    launch(norm_any<T, vector, rms>, {blocks_for(rows, 1)}, {any_threads}, 0, k.stream, forward);
  });
}

template <bool rms>
void norm_grad(const KernelCall& k) {
  const NormRows of(k);
  const std::int64_t rows = of.count, width = of.width;
  if (rows == 0) return;
  const RowChunks chunks = chunks_of_norm_grad({Shape{rows, width}, k.call.inputs[0].dtype});
  const bool has_bias = k.call.outputs.size() > 2;
  with_vectors(k.call.inputs[0].dtype, width, [&]<typename T, int vector>() {
    const NormOperands place(k.call.op);
    const NormWeight<T> weight(k);
    const Backward<T> backward{k.in<T>(0),
                               weight.data,
                               k.in<T>(place.dy),
                               k.in<float>(place.saved),
                               k.out<T>(0),
                               rows,
                               width,
                               chunks,
                               k.workspace<float>(),
                               has_bias,
                               weight.offset};
    if constexpr (vector > 1) {
      if (width <= longest_held_row) {
        with_first<32, 64, 96, 128, 160, 192, 256, 512, 1024>(
            norm_threads(width), [&]<int threads>() {
              launch(norm_grad_held<T, threads, rms>, {blocks_for(chunks.chunks, 1)}, {threads}, 0,
                     k.stream, backward);
            });
        if (k.call.outputs.size() > 1) add_partial_sums(k, chunks, width, 1, 0);
        if (has_bias) add_partial_sums(k, chunks, width, 2, 1);
        return;
      }
    }
    launch(norm_grad_any<T, vector, rms>, {blocks_for(rows, 1)}, {any_threads}, 0, k.stream,
           backward);
    add_weight_gradients<vector, T, rms>(k);
  });
}

constexpr Row rows[] = {
    {Op::layer_norm, norm<false>}, {Op::layer_norm_grad, norm_grad<false>},
    {Op::rms_norm, norm<true>},    {Op::rms_norm_grad, norm_grad<true>},
    {Op::head_norm, norm<true>},   {Op::head_norm_grad, norm_grad<true>},
};

}  // namespace

std::span<const Row> norm_rows() { return rows; }

}  // namespace meshwright::exec::cuda
