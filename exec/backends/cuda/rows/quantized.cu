// Tensors in 8 bits: their largest elements, rounding, transposition.
#include "exec/backends/cuda/device/eight_bits.cuh"
#include "exec/backends/cuda/device/launch.h"
#include "exec/backends/cuda/device/types.cuh"
#include "exec/backends/cuda/kernels.h"
#include "exec/backends/cuda/products/fp8.h"
#include "exec/backends/cuda/tables.h"
#include "models/graph/quantized.h"

namespace meshwright::cuda {

namespace {

constexpr int threads = 256;

void amax(const KernelCall& k) {
  MESHWRIGHT_CHECK(k.call.inputs[0].dtype == Dtype::bf16, "what is rounded to 8 bits is in bf16");
  const Shape& x = k.in_shape(0);
  find_largest({.matrix = k.in<void>(0),
                .rows = rows_of_scales(x),
                .columns = x[-1],
                .largest = k.out<float>(0)},
               k.stream);
}

// The block's largest power of two by which its largest element becomes no more than the format's.
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
  long long rows, columns;          // of the matrix in 8 bits
  long long height, width;          // of a block that has one scale
  long long row_step, column_step;  // from one element of what is read to the next
};

// A block of threads for each block of the matrix.
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

void round_whole(const KernelCall& k, std::size_t first) {
  const Shape& x = k.in_shape(0);
  round_by_largest({.matrix = k.in<void>(0),
                    .rows = rows_of_scales(x),
                    .columns = x[-1],
                    .transposes = first > 0,
                    .format = k.attributes().made,
                    .rounded = k.out<unsigned char>(first),
                    .largest = const_cast<float*>(k.in<float>(1)),
                    .scale = k.out<float>(first + 1)},
                   k.stream);
}

void quantize(const KernelCall& k) {
  MESHWRIGHT_CHECK(k.call.inputs[0].dtype == Dtype::bf16, "what is rounded to 8 bits is in bf16");
  for (std::size_t first = 0; first < k.call.outputs.size(); first += 2)
    k.call.inputs.size() > 1 ? round_whole(k, first) : round_in_blocks(k, first);
}

// A block turns a square of `side` rows and columns.
constexpr int side = 32;

template <typename Element>
__global__ void __launch_bounds__(threads)
    turn(const Element* from, Element* to, long long rows, long long columns, long long across) {
  __shared__ Element square[side][side + 1];
  const long long row0 = blockIdx.x / across * side, column0 = blockIdx.x % across * side;
  for (int i = threadIdx.x; i < side * side; i += threads) {
    const long long row = row0 + i / side, column = column0 + i % side;
    if (row < rows && column < columns) square[i / side][i % side] = from[row * columns + column];
  }
  __syncthreads();
  for (int i = threadIdx.x; i < side * side; i += threads) {
    const long long row = row0 + i % side, column = column0 + i / side;
    if (row < rows && column < columns) to[column * rows + row] = square[i % side][i / side];
  }
}

void transpose(const KernelCall& k) {
  const std::int64_t rows = k.in_shape(0)[0], columns = k.in_shape(0)[1];
  const std::int64_t across = (columns + side - 1) / side, down = (rows + side - 1) / side;
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
};

}  // namespace

std::span<const Row> quantized_rows() { return rows; }

}  // namespace meshwright::cuda
