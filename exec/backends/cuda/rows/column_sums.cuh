// Sums over the rows of a matrix, column by column, as for the gradients of biases and of norms'
// weights. Chunks of rows are summed first, concurrently, into scratch memory. Then the chunks'
// sums are added in an order that depends only on the shape.
#pragma once

#include "exec/backends/cuda/device/launch.h"
#include "exec/backends/cuda/device/types.cuh"
#include "exec/backends/cuda/kernels.h"
#include "models/program/graph/gpu_scratch.h"

namespace meshwright::exec::cuda {

constexpr int partial_warps = 32;

// Adds the sum of partial[chunk, c] over the chunks to to[c], or stores it there if `overwrites` is
// set.
template <typename To>
__global__ void __launch_bounds__(32 * partial_warps)
    add_partials(const float* __restrict__ partial, long long chunks, long long columns,
                 To* __restrict__ to, bool overwrites) {
  __shared__ float of_warp[partial_warps][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const long long column = static_cast<long long>(blockIdx.x) * 32 + lane;
  float sum = 0.0f;
  if (column < columns) {
#pragma unroll 8
    for (long long chunk = warp; chunk < chunks; chunk += partial_warps)
      sum += partial[chunk * columns + column];
  }
  of_warp[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || column >= columns) return;
  float total = 0.0f;
  for (int w = 0; w < partial_warps; ++w) total += of_warp[w][lane];
  narrow(overwrites ? total : widened(to[column]) + total, to[column]);
}

// Adds the partial sums of all chunks to output number `output`, which is f32, f16 or bf16, or
// stores them there if the call overwrites that output. `of` is the number of the term's sum whose
// partial sums these are: the workspace has those of sum 0 first.
inline void add_partial_sums(const KernelCall& k, const RowChunks& chunks, std::int64_t columns,
                             std::size_t output, int of) {
  const float* partial = k.workspace<float>() + of * chunks.chunks * columns;
  with_type(k.call.outputs[output].dtype, [&]<typename To>(To) {
    launch(add_partials<To>, {blocks_for(columns, 32)}, {32 * partial_warps}, 0, k.stream, partial,
           chunks.chunks, columns, k.out<To>(output), k.call.overwrites_output(output));
  });
}

constexpr int chunk_warps = 8;

// Sums a term over each chunk of rows into partial[sum, chunk, column]. `Term::sums` is the number
// of sums, and term.add<vector>(row, column, total) adds the terms of `vector` columns from
// `column` on to total[sum][j].
template <int vector, typename Term>
__global__ void __launch_bounds__(32 * chunk_warps)
    sum_chunks(Term term, long long rows, long long columns, RowChunks chunks,
               float* __restrict__ partial) {
  __shared__ float of_warp[chunk_warps][32 * vector];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const long long first_column = static_cast<long long>(blockIdx.x) * 32 * vector;
  const long long column = first_column + lane * vector;
  const long long begin = blockIdx.y * chunks.rows_of_chunk;
  const long long end = min(begin + chunks.rows_of_chunk, rows);
  float total[Term::sums][vector] = {};
  if (column < columns) {
#pragma unroll 4
    for (long long row = begin + warp; row < end; row += chunk_warps)
      term.template add<vector>(row, column, total);
  }
#pragma unroll
  for (int s = 0; s < Term::sums; ++s) {
    if (s > 0) __syncthreads();
#pragma unroll
    for (int j = 0; j < vector; ++j) of_warp[warp][lane * vector + j] = total[s][j];
    __syncthreads();
    for (int c = threadIdx.x; c < 32 * vector && first_column + c < columns;
         c += 32 * chunk_warps) {
      float sum = 0.0f;
#pragma unroll
      for (int w = 0; w < chunk_warps; ++w) sum += of_warp[w][c];
      partial[(s * chunks.chunks + blockIdx.y) * columns + first_column + c] = sum;
    }
  }
}

// Adds the sums of a term to the outputs from `first_output` on, or stores them in outputs that the
// call overwrites. The workspace must have chunks_of_sums(rows).bytes(columns, Term::sums) bytes.
// Does nothing if there are no rows.
template <int vector, typename Term>
void add_column_sums(const KernelCall& k, std::int64_t rows, std::int64_t columns, Term term,
                     std::size_t first_output) {
  if (rows == 0) return;
  const RowChunks chunks = chunks_of_sums(rows);
  launch(sum_chunks<vector, Term>,
         {blocks_for(columns, 32 * vector), static_cast<unsigned int>(chunks.chunks)},
         {32 * chunk_warps}, 0, k.stream, term, rows, columns, chunks, k.workspace<float>());
  for (int s = 0; s < Term::sums; ++s)
    add_partial_sums(k, chunks, columns, first_output + static_cast<std::size_t>(s), s);
}

// A term for add_column_sums() that is the row itself.
template <typename T>
struct OfRows {
  static constexpr int sums = 1;
  const T* x;
  long long width;

  template <int vector>
  __device__ void add(long long row, long long column, float (&total)[1][vector]) const {
    float part[vector];
    load<vector>(x + row * width + column, part);
#pragma unroll
    for (int j = 0; j < vector; ++j) total[0][j] += part[j];
  }
};

}  // namespace meshwright::exec::cuda
