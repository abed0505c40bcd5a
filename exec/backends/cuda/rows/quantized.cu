// Rounds tensors to 8 bits, finds their largest magnitudes, and transposes them.
#include <algorithm>
#include <cfloat>

#include "exec/backends/cuda/device/launch.h"
#include "exec/backends/cuda/device/types.cuh"
#include "exec/backends/cuda/kernels.h"
#include "exec/backends/cuda/tables.h"
#include "exec/core/eight_bits.h"
#include "models/program/graph/quantized.h"

namespace meshwright::exec::cuda {

namespace {

constexpr int threads = 256;

constexpr int vector = 8;  // bf16 elements in 16 bytes

// The fraction bits of an 8-bit format, its exponent's bias, its largest finite number, and the
// codes of that number and of NaN.
template <Dtype format>
struct Format;
template <>
struct Format<Dtype::e4m3> {
  static constexpr int fraction = 3, bias = 7;
  static constexpr float largest = 448.0f;
  static constexpr unsigned int largest_bits = 0x7e, nan_bits = 0x7f;
};
template <>
struct Format<Dtype::e5m2> {
  static constexpr int fraction = 2, bias = 15;
  static constexpr float largest = 57344.0f;
  static constexpr unsigned int largest_bits = 0x7b, nan_bits = 0x7f;
};

// Returns the code of x rounded to nearest, ties to even. Magnitudes that are too large, also
// infinity, become the largest finite number. NaN stays NaN.
template <Dtype format>
__device__ unsigned char fp8_of(float x) {
  using F = Format<format>;
  const unsigned int bits = __float_as_uint(x), sign = bits >> 24 & 0x80u;
  const unsigned int magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<unsigned char>(sign | F::nan_bits);
  constexpr int dropped = 23 - F::fraction;
  constexpr unsigned int least_normal = static_cast<unsigned int>(127 - F::bias + 1) << 23;
  unsigned int rounded;
  if (magnitude >= least_normal) {
    rounded = magnitude + ((1u << (dropped - 1)) - 1) + (magnitude >> dropped & 1u);
    rounded = (rounded >> dropped) - (static_cast<unsigned int>(127 - F::bias) << F::fraction);
  } else {
    // In the format's denormal range, the magnitude is counted in the smallest steps and added to
    // 2^23, so that the last place of the sum is one step.
    constexpr float steps = static_cast<float>(1 << (F::bias - 1 + F::fraction));
    rounded = __float_as_uint(__uint_as_float(magnitude) * steps + 8388608.0f) & 0xffu;
  }
  return static_cast<unsigned char>(sign | (rounded > F::largest_bits ? F::largest_bits : rounded));
}

// Returns the factor by which elements are multiplied before they are rounded, from their largest
// magnitude. If that is 0, the factor is 1. If it is NaN or infinite, the factor is NaN or 0, and
// the scale 1 / factor makes all values NaN.
template <Dtype format>
__device__ float factor_of(float largest) {
  if (largest == 0.0f) return 1.0f;
  const float factor = Format<format>::largest / largest;
  return factor > FLT_MAX ? FLT_MAX : factor;  // infinity would make zeros NaN
}

// Raises *largest to the largest of the warp's `own` magnitudes, which are given by their bits.
// Magnitudes compare as their bits do, with NaN above all others, so the order of blocks does not
// matter.
__device__ void note_largest(unsigned int own, unsigned int* largest) {
  for (int distance = 16; distance > 0; distance /= 2)
    own = max(own, __shfl_xor_sync(0xffffffffu, own, distance));
  if (threadIdx.x % 32 == 0) atomicMax(largest, own);
}

__global__ void __launch_bounds__(threads)
    find_largest(const bf16* matrix, unsigned int* largest, long long count) {
  unsigned int own = 0;
  const long long step = static_cast<long long>(gridDim.x) * threads * vector;
  for (long long i = (static_cast<long long>(blockIdx.x) * threads + threadIdx.x) * vector;
       i < count; i += step) {
    float x[vector];
    load<vector>(matrix + i, x);
    for (int j = 0; j < vector; ++j) own = max(own, __float_as_uint(x[j]) & 0x7fffffffu);
  }
  note_largest(own, largest);
}

// The only scale of a matrix, from the matrix's own largest magnitude or from those of earlier
// steps. If *largest is 0, as before the first step, the factor is factor_of_none.
struct Whole {
  const float* largest;
  float factor_of_none;
  float* scale;
};

template <Dtype format>
__device__ float factor_of(const Whole& whole) {
  const float factor =
      *whole.largest == 0.0f ? whole.factor_of_none : factor_of<format>(*whole.largest);
  if (blockIdx.x == 0 && threadIdx.x == 0) *whole.scale = 1.0f / factor;
  return factor;
}

// Rounds a matrix without transposing it. `seen` collects this step's largest magnitude for the
// scales of later steps. It is null if scales do not come from earlier steps.
template <Dtype format>
__global__ void __launch_bounds__(threads)
    round_rows(const bf16* matrix, unsigned char* rounded, Whole whole, unsigned int* seen,
               long long count) {
  const float factor = factor_of<format>(whole);
  const long long i = (static_cast<long long>(blockIdx.x) * threads + threadIdx.x) * vector;
  unsigned int own = 0;
  if (i < count) {
    float x[vector];
    load<vector>(matrix + i, x);
    Chunk<unsigned char, vector> bytes;
    for (int j = 0; j < vector; ++j) {
      own = max(own, __float_as_uint(x[j]) & 0x7fffffffu);
      bytes.element[j] = fp8_of<format>(x[j] * factor);
    }
    *reinterpret_cast<Chunk<unsigned char, vector>*>(rounded + i) = bytes;
  }
  if (seen != nullptr) note_largest(own, seen);
}

// A block rounds and transposes a square of `side` rows and columns. A thread stores 16 bytes of a
// row of the result at once. Padding spreads a column over the banks of shared memory.
constexpr int side = 64, chunk = 16, padded = side + chunk;

template <Dtype format>
__global__ void __launch_bounds__(threads)
    round_columns(const bf16* matrix, unsigned char* rounded, Whole whole, long long rows,
                  long long columns, long long squares_across) {
  __shared__ __align__(16) unsigned char square[side * padded];
  const float factor = factor_of<format>(whole);
  const long long row0 = blockIdx.x / squares_across * side;
  const long long column0 = blockIdx.x % squares_across * side;
  constexpr int across = side / vector;
  for (int part = threadIdx.x; part < side * across; part += threads) {
    const int row = part / across, column = part % across * vector;
    if (row0 + row >= rows || column0 + column >= columns) continue;
    float x[vector];
    load<vector>(matrix + (row0 + row) * columns + column0 + column, x);
    for (int j = 0; j < vector; ++j)
      square[(column + j) * padded + row] = fp8_of<format>(x[j] * factor);
  }
  __syncthreads();
  for (int part = threadIdx.x; part < side * (side / chunk); part += threads) {
    const int column = part / (side / chunk), row = part % (side / chunk) * chunk;
    if (row0 + row >= rows || column0 + column >= columns) continue;
    using Bytes = Chunk<unsigned char, chunk>;
    *reinterpret_cast<Bytes*>(rounded + (column0 + column) * rows + row0 + row) =
        *reinterpret_cast<const Bytes*>(square + column * padded + row);
  }
}

// Checks that the input is bf16 and that its first and last dimensions are multiples of 16, because
// kernels move 16 bytes of a result at once.
void require_bf16(const KernelCall& k) {
  const Shape& x = k.in_shape(0);
  MESHWRIGHT_CHECK(k.call.inputs[0].dtype == Dtype::bf16 && x[0] % 16 == 0 && x[-1] % 16 == 0,
                   "what is rounded to 8 bits is in bf16, in multiples of 16");
}

void amax(const KernelCall& k) {
  require_bf16(k);
  const std::int64_t count = k.in_shape(0).elements();
  check(cudaMemsetAsync(k.out<float>(0), 0, sizeof(float), k.stream), "cudaMemsetAsync");
  constexpr std::int64_t of_thread = 4 * vector, most_blocks = 1024;
  const std::int64_t wanted = (count + threads * of_thread - 1) / (threads * of_thread);
  if (wanted == 0) return;  // a rank may hold nothing of a parameter
  const auto blocks = static_cast<unsigned int>(wanted < most_blocks ? wanted : most_blocks);
  launch(find_largest, {blocks}, {threads}, 0, k.stream, k.in<bf16>(0), k.out<unsigned int>(0),
         static_cast<long long>(count));
}

// Returns the largest power of two, from 2^-126 to 2^126, that brings a block's largest magnitude
// to at most the format's largest number. If the magnitude is 0, NaN or infinite, returns
// factor_of() for it.
template <Dtype format>
__device__ float power_of(float largest) {
  const float factor = factor_of<format>(largest);
  if (largest == 0.0f || factor == 0.0f || factor != factor) return factor;
  constexpr float least = 0x1p-126f, most = 0x1p126f;
  if (factor <= least) return least;
  const float power = __uint_as_float(__float_as_uint(factor) & 0x7f800000u);
  return power > most ? most : power;
}

struct Blocks {
  long long rows, columns;          // of the rounded matrix
  long long height, width;          // rows and columns of a block with one scale
  long long row_step, column_step;  // elements from a row or column of the input to the next
};

// Rounds a matrix with one scale per block of elements. Each block of threads has one block of the
// matrix.
template <Dtype format>
__global__ void __launch_bounds__(threads)
    round_blocks(const bf16* from, unsigned char* rounded, float* scales, Blocks b) {
  __shared__ unsigned int of_block;
  const long long across = b.columns / b.width;
  const long long row0 = blockIdx.x / across * b.height, column0 = blockIdx.x % across * b.width;
  const long long count = b.height * b.width;
  const auto value = [&](long long i) {
    return widened(
        from[(row0 + i / b.width) * b.row_step + (column0 + i % b.width) * b.column_step]);
  };
  if (threadIdx.x == 0) of_block = 0;
  __syncthreads();
  unsigned int own = 0;
  for (long long i = threadIdx.x; i < count; i += threads)
    own = max(own, __float_as_uint(value(i)) & 0x7fffffffu);
  atomicMax(&of_block, own);
  __syncthreads();
  const float factor = power_of<format>(__uint_as_float(of_block));
  if (threadIdx.x == 0) scales[blockIdx.x] = 1.0f / factor;
  for (long long i = threadIdx.x; i < count; i += threads)
    rounded[(row0 + i / b.width) * b.columns + column0 + i % b.width] =
        fp8_of<format>(value(i) * factor);
}

void round_in_blocks(const KernelCall& k, std::size_t first) {
  MESHWRIGHT_CHECK(k.attributes().scales_are_powers, "scales of blocks are powers of two");
  const Shape &matrix = k.out_shape(first), &scales = k.out_shape(first + 1);
  const ScaleBlock block = scale_block(matrix, scales);
  const bool turns = first > 0;
  const Blocks blocks{rows_of_scales(matrix),
                      matrix[-1],
                      block.rows,
                      block.columns,
                      turns ? 1 : matrix[-1],
                      turns ? rows_of_scales(matrix) : 1};
  const auto kernel =
      k.attributes().made == Dtype::e5m2 ? round_blocks<Dtype::e5m2> : round_blocks<Dtype::e4m3>;
  launch(kernel, {blocks_for(scales.elements(), 1)}, {threads}, 0, k.stream, k.in<bf16>(0),
         k.out<unsigned char>(first), k.out<float>(first + 1), blocks);
}

template <Dtype format>
void round_whole(const KernelCall& k, std::size_t first) {
  const long long rows = rows_of_scales(k.in_shape(0)), columns = k.in_shape(0)[-1];
  const Attributes& a = k.attributes();
  const auto* matrix = k.in<bf16>(0);
  auto* rounded = k.out<unsigned char>(first);
  const Whole whole{k.in<float>(1), a.scales_of_before ? first_factor(a.scale) : 1.0f,
                    k.out<float>(first + 1)};
  if (first == 0) {
    unsigned int* seen =
        a.scales_of_before ? k.out<unsigned int>(k.call.outputs.size() - 1) + 1 : nullptr;
    // One block runs even if there is nothing to round, because it writes the scale.
    const unsigned int blocks = std::max(1U, blocks_for(rows * columns, threads * vector));
    launch(round_rows<format>, {blocks}, {threads}, 0, k.stream, matrix, rounded, whole, seen,
           rows * columns);
    return;
  }
  const long long across = (columns + side - 1) / side, down = (rows + side - 1) / side;
  launch(round_columns<format>, {blocks_for(across * down, 1)}, {threads}, 0, k.stream, matrix,
         rounded, whole, rows, columns, across);
}

void quantize(const KernelCall& k) {
  require_bf16(k);
  MESHWRIGHT_CHECK(
      !k.attributes().with_transposed || matrices_of(k.attributes(), k.in_shape(0)).count == 1,
      "one matrix is transposed");
  const bool e5m2 = k.attributes().made == Dtype::e5m2;
  const std::size_t roundings = k.attributes().with_transposed ? 2 : 1;
  for (std::size_t first = 0; first < 2 * roundings; first += 2) {
    if (k.call.inputs.size() == 1)
      round_in_blocks(k, first);
    else
      e5m2 ? round_whole<Dtype::e5m2>(k, first) : round_whole<Dtype::e4m3>(k, first);
  }
}

// Moves this step's largest magnitudes into the histories, from which the oldest are dropped, and
// finds the largest of each history. Each block has one history. If the loss or the norm is not
// finite, nothing changes. A largest magnitude that is not finite counts as 0.
__global__ void __launch_bounds__(threads)
    move_histories(const double* squared_norm, const double* loss, float* largest, float* history,
                   long long steps) {
  __shared__ unsigned int of_block;
  if (!isfinite(*squared_norm) || !isfinite(*loss)) return;
  largest += 2 * blockIdx.x;
  history += steps * blockIdx.x;
  if (threadIdx.x == 0) of_block = 0;
  unsigned int own = 0;
  for (long long first = 0; first < steps; first += threads) {
    const long long i = first + threadIdx.x;
    float next = 0.0f;
    if (i + 1 < steps) next = history[i + 1];
    if (i + 1 == steps && isfinite(largest[1])) next = largest[1];
    __syncthreads();  // all threads read before any writes
    if (i < steps) history[i] = next;
    own = max(own, __float_as_uint(next));
    __syncthreads();
  }
  atomicMax(&of_block, own);
  __syncthreads();
  if (threadIdx.x != 0) return;
  largest[0] = __uint_as_float(of_block);
  largest[1] = 0.0f;
}

void update_largest(const KernelCall& k) {
  const auto histories = static_cast<unsigned int>(k.out_shape(1)[0]);
  launch(move_histories, {histories}, {threads}, 0, k.stream, k.in<double>(0), k.in<double>(1),
         k.out<float>(0), k.out<float>(1), static_cast<long long>(k.out_shape(1)[1]));
}

// A block transposes a square of `tile` rows and columns.
constexpr int tile = 32;

template <typename Element>
__global__ void __launch_bounds__(threads)
    turn(const Element* from, Element* to, long long rows, long long columns, long long across) {
  __shared__ Element square[tile][tile + 1];
  const long long row0 = blockIdx.x / across * tile, column0 = blockIdx.x % across * tile;
  for (int i = threadIdx.x; i < tile * tile; i += threads) {
    const long long row = row0 + i / tile, column = column0 + i % tile;
    if (row < rows && column < columns) square[i / tile][i % tile] = from[row * columns + column];
  }
  __syncthreads();
  for (int i = threadIdx.x; i < tile * tile; i += threads) {
    const long long row = row0 + i % tile, column = column0 + i / tile;
    if (row < rows && column < columns) to[column * rows + row] = square[i % tile][i / tile];
  }
}

void transpose(const KernelCall& k) {
  MESHWRIGHT_CHECK(matrices_of(k.attributes(), k.in_shape(0)).count == 1,
                   "one matrix is transposed");
  const std::int64_t rows = k.in_shape(0)[0], columns = k.in_shape(0)[1];
  const std::int64_t across = (columns + tile - 1) / tile, down = (rows + tile - 1) / tile;
  const auto issue = [&]<typename Element>(Element) {
    launch(turn<Element>, {blocks_for(across * down, 1)}, {threads}, 0, k.stream, k.in<Element>(0),
           k.out<Element>(0), static_cast<long long>(rows), static_cast<long long>(columns),
           static_cast<long long>(across));
  };
  switch (bytes_of(k.call.inputs[0].dtype)) {
    case 1:
      return issue(std::uint8_t{});
    case 2:
      return issue(std::uint16_t{});
    default:
      return issue(std::uint32_t{});
  }
}

constexpr Row rows[] = {
    {Op::amax, amax},
    {Op::quantize, quantize},
    {Op::transpose, transpose},
    {Op::update_largest, update_largest},
};

}  // namespace

std::span<const Row> quantized_rows() { return rows; }

}  // namespace meshwright::exec::cuda
