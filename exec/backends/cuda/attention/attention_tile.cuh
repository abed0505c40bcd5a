// Tiles of attention in shared memory, and products of them in registers. A warp's part of a
// product has M times 16 rows. With g = l / 4 and t = l % 4, lane l holds elements (g, 2t), (g,
// 2t+1), (g+8, 2t) and (g+8, 2t+1) of each 16 x 8 piece, as tensor cores do. Tensor cores multiply
// 16-bit tiles, and ordinary instructions multiply fp32 tiles in the same layout, so the same
// kernels serve both.
#pragma once

#include "exec/backends/cuda/attention/mma.cuh"

namespace meshwright::exec::cuda {

// The number of elements from one row of a tile to the next: an odd number of 16-byte units, so
// that eight lanes that read 16 bytes of eight rows reach all 32 banks once.
template <typename T, int D>
constexpr int row_pitch = D + 16 / static_cast<int>(sizeof(T));
template <typename T, int D>
constexpr int tile_bytes(int rows) {
  return rows * row_pitch<T, D> * static_cast<int>(sizeof(T));
}

// The number of blocks on a multiprocessor if a thread takes up to 255 registers. Kernels declare
// it, so that the compiler spills no registers to make room for more blocks.
template <typename Tile>
constexpr int resident_blocks = 256 / Tile::threads;

// Returns the number of the thread's warp in the block. The compiler sees that it is the same for
// all lanes.
inline __device__ int own_warp() {
  return __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0);
}

// Rows of a tensor, `row` elements apart, each as wide as a head.
template <typename T>
struct HeadRows {
  T* first;
  int row;
  int count;     // of rows; a tile has zeros after them
  int width;     // elements of a head
  bool vectors;  // whether 16 bytes can be moved at a time
};

// Begins to copy `rows` rows of `columns` columns into a tile with D columns. If rows cannot be
// moved 16 bytes at a time, the copy is complete on return. A thread has the same columns of every
// few rows, so that it needs only one address.
template <int rows, int D, int threads, int columns, typename T>
__device__ inline void load_columns(T* tile, const HeadRows<const T>& from) {
  constexpr int unit = 16 / static_cast<int>(sizeof(T)), units = columns / unit;
  constexpr int step = threads / units;
  const int first = static_cast<int>(threadIdx.x) / units;
  const int column = static_cast<int>(threadIdx.x) % units * unit;
  if (threads % units != 0 && first >= step) return;
  T* to = tile + first * row_pitch<T, D> + column;
  const T* source = from.first + static_cast<long long>(first) * from.row + column;
  if (from.vectors) {
#pragma unroll
    for (int turn = 0; turn < (rows + step - 1) / step; ++turn) {
      const int row = first + turn * step;
      if (rows % step != 0 && row >= rows) break;
      copy_async_16(to + turn * step * row_pitch<T, D>, source,
                    row < from.count && column < from.width);
      source += step * from.row;
    }
    return;
  }
#pragma unroll 1
  for (int row = first; row < rows; row += step) {
#pragma unroll 1
    for (int i = 0; i < unit; ++i) {
      if (row < from.count && column + i < from.width)
        to[i] = source[i];
      else
        narrow(0.0f, to[i]);
    }
    to += step * row_pitch<T, D>;
    source += step * from.row;
  }
}
// Begins to copy all D columns of a tile, at once, or as many columns at a time as there are
// threads for.
template <int rows, int D, int threads, typename T>
__device__ inline void load_tile(T* tile, const HeadRows<const T>& from) {
  constexpr int columns = threads * 16 / static_cast<int>(sizeof(T));
  if constexpr (columns >= D) {
    load_columns<rows, D, threads, D>(tile, from);
  } else {
    static_assert(D % columns == 0);
#pragma unroll
    for (int c = 0; c < D; c += columns)
      load_columns<rows, D, threads, columns>(
          tile + c, {from.first + c, from.row, from.count, from.width - c, from.vectors});
  }
}

// Stores two neighbouring elements, converted to the tile's type.
inline __device__ void put_pair(float* to, float low, float high) {
  *reinterpret_cast<float2*>(to) = make_float2(low, high);
}
template <typename T>
__device__ inline void put_pair(T* to, float low, float high) {
  *reinterpret_cast<unsigned int*>(to) = packed<T>(low, high);
}

// Writes a warp's rows to memory. They pass through the warp's rows of a tile that is no longer
// needed.
template <typename T, int M, int D>
__device__ inline void store_rows(const float (&y)[M][D / 8][4], T* tile, const HeadRows<T>& to) {
  constexpr int unit = 16 / static_cast<int>(sizeof(T)), units = D / unit;
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
      for (int d = 0; d < D / 8; ++d)
        put_pair(tile + (16 * m + 8 * h + lane / 4) * row_pitch<T, D> + 8 * d + lane % 4 * 2,
                 y[m][d][2 * h], y[m][d][2 * h + 1]);
  __syncwarp();
  for (int place = lane; place < 16 * M * units; place += 32) {
    const int row = place / units, column = place % units * unit;
    if (row >= to.count || column >= to.width) continue;
    const T* const from = tile + row * row_pitch<T, D> + column;
    T* const target = to.first + static_cast<long long>(row) * to.row + column;
    if (to.vectors) {
      *reinterpret_cast<Chunk<T, unit>*>(target) = *reinterpret_cast<const Chunk<T, unit>*>(from);
    } else {
      for (int i = 0; i < unit && column + i < to.width; ++i) target[i] = from[i];
    }
  }
}

// Returns the offset, in elements, of the row that a lane points at when a warp loads four 8 x 8
// matrices: rows 0 to 15 of the first 8 columns, then of the next 8.
template <typename T, int D>
__device__ inline int lane_offset() {
  return static_cast<int>(threadIdx.x) % 16 * row_pitch<T, D> +
         static_cast<int>(threadIdx.x) % 32 / 16 * 8;
}

// A warp's rows of a tile as the left side of products. If `kept` is set, keep() loads them into
// registers once, except for fp32.
template <typename T, int M, int D, bool kept = false>
class LeftRows {
 public:
  // `rows` is the address of the warp's first row.
  explicit __device__ LeftRows(const T* rows) : rows_(rows + lane_offset<T, D>()) {}
  __device__ void keep() {
    if constexpr (kept) {
#pragma unroll
      for (int k = 0; k < D / 16; ++k) read(k, fragments_[k]);
    }
  }
  // Writes columns [16k, 16k + 16) of the rows to the fragments `a`.
  __device__ void get(int k, unsigned int (&a)[M][4]) const {
    if constexpr (kept) {
#pragma unroll
      for (int m = 0; m < M; ++m)
#pragma unroll
        for (int i = 0; i < 4; ++i) a[m][i] = fragments_[k][m][i];
    } else {
      read(k, a);
    }
  }

 private:
  __device__ void read(int k, unsigned int (&a)[M][4]) const {
#pragma unroll
    for (int m = 0; m < M; ++m) load_matrix_x4(a[m], rows_ + 16 * m * row_pitch<T, D> + 16 * k);
  }
  const T* rows_;
  unsigned int fragments_[kept ? D / 16 : 1][M][4];
};
template <int M, int D, bool kept>
class LeftRows<float, M, D, kept> {
 public:
  explicit __device__ LeftRows(const float* rows)
      : rows_(rows + static_cast<int>(threadIdx.x) % 32 / 4 * row_pitch<float, D>) {}
  __device__ void keep() {}
  // Returns columns [k, k + 4) of the lane's row `half` (0 or 1) of the 16 rows m.
  __device__ float4 get(int m, int half, int k) const {
    return *reinterpret_cast<const float4*>(rows_ + (16 * m + 8 * half) * row_pitch<float, D> + k);
  }

 private:
  const float* rows_;
};

// Computes s[16 M, N] = left[16 M, D] right[N, D]^T for a warp.
template <int N, typename T, int M, int D, bool kept>
__device__ inline void multiply_rows(float (&s)[M][N / 8][4], const LeftRows<T, M, D, kept>& left,
                                     const T* right) {
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int n = 0; n < N / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) s[m][n][i] = 0.0f;
  if constexpr (sizeof(T) == sizeof(float)) {
    const T* const rows = right + static_cast<int>(threadIdx.x) % 4 * 2 * row_pitch<T, D>;
#pragma unroll 2
    for (int k = 0; k < D; k += 4) {
      float4 a[M][2];
#pragma unroll
      for (int m = 0; m < M; ++m)
#pragma unroll
        for (int h = 0; h < 2; ++h) a[m][h] = left.get(m, h, k);
#pragma unroll
      for (int n = 0; n < N / 8; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const float4 b =
              *reinterpret_cast<const float4*>(rows + (8 * n + e) * row_pitch<T, D> + k);
#pragma unroll
          for (int m = 0; m < M; ++m)
#pragma unroll
            for (int h = 0; h < 2; ++h) {
              float& sum = s[m][n][2 * h + e];
              sum = fmaf(a[m][h].x, b.x, sum);
              sum = fmaf(a[m][h].y, b.y, sum);
              sum = fmaf(a[m][h].z, b.z, sum);
              sum = fmaf(a[m][h].w, b.w, sum);
            }
        }
    }
  } else {
    const T* const rows = right + lane_offset<T, D>();
#pragma unroll
    for (int k = 0; k < D / 16; ++k) {
      unsigned int a[M][4];
      left.get(k, a);
#pragma unroll
      for (int n = 0; n < N / 16; ++n) {
        unsigned int b[4];
        load_matrix_x4(b, rows + 16 * n * row_pitch<T, D> + 16 * k);
        const unsigned int first[2] = {b[0], b[2]}, second[2] = {b[1], b[3]};
#pragma unroll
        for (int m = 0; m < M; ++m) {
          mma_16x8x16<T>(s[m][2 * n], a[m], first);
          mma_16x8x16<T>(s[m][2 * n + 1], a[m], second);
        }
      }
    }
  }
}

// Weights as the left side of products, in fp32 or rounded to T.
template <typename T, int M, int N>
struct Weights {
  unsigned int fragments[M][N / 16][4];
  explicit __device__ Weights(const float (&s)[M][N / 8][4]) {
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int k = 0; k < N / 16; ++k)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          fragments[m][k][i] =
              packed<T>(s[m][2 * k + i / 2][i % 2 * 2], s[m][2 * k + i / 2][i % 2 * 2 + 1]);
  }
};
template <int M, int N>
struct Weights<float, M, N> {
  float fragments[M][N / 8][4];
  explicit __device__ Weights(const float (&s)[M][N / 8][4]) {
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int n = 0; n < N / 8; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) fragments[m][n][i] = s[m][n][i];
  }
};

// Computes y[16 M, D] += weights[16 M, N] rows[N, D] for a warp.
template <int D, int N, typename T, int M>
__device__ inline void weigh_rows(float (&y)[M][D / 8][4], const Weights<T, M, N>& weights,
                                  const T* rows) {
  if constexpr (sizeof(T) == sizeof(float)) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const T* const columns = rows + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < N / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        float w[M][2];
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
          for (int h = 0; h < 2; ++h)
            w[m][h] = __shfl_sync(0xffffffffu, weights.fragments[m][n][2 * h + i % 2],
                                  lane / 4 * 4 + i / 2);
#pragma unroll
        for (int d = 0; d < D / 8; ++d) {
          const float2 v =
              *reinterpret_cast<const float2*>(columns + (8 * n + i) * row_pitch<T, D> + 8 * d);
#pragma unroll
          for (int m = 0; m < M; ++m)
#pragma unroll
            for (int h = 0; h < 2; ++h) {
              y[m][d][2 * h] = fmaf(w[m][h], v.x, y[m][d][2 * h]);
              y[m][d][2 * h + 1] = fmaf(w[m][h], v.y, y[m][d][2 * h + 1]);
            }
        }
      }
    }
  } else {
    const T* const row = rows + lane_offset<T, D>();
#pragma unroll
    for (int k = 0; k < N / 16; ++k)
#pragma unroll
      for (int d = 0; d < D / 16; ++d) {
        unsigned int b[4];
        load_matrix_x4_transposed(b, row + 16 * k * row_pitch<T, D> + 16 * d);
        const unsigned int first[2] = {b[0], b[1]}, second[2] = {b[2], b[3]};
#pragma unroll
        for (int m = 0; m < M; ++m) {
          mma_16x8x16<T>(y[m][2 * d], weights.fragments[m][k], first);
          mma_16x8x16<T>(y[m][2 * d + 1], weights.fragments[m][k], second);
        }
      }
  }
}

// Calls visit(element, row, column) for every element of the lane. Rows and columns count within
// the warp's part, without the lane's own offsets g and 2t.
template <int M, int N, typename Visit>
__device__ inline void for_elements(float (&s)[M][N][4], const Visit& visit) {
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int n = 0; n < N; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) visit(s[m][n][i], 16 * m + 8 * (i / 2), 8 * n + i % 2);
}

// These two functions return the sum and the maximum of x over the four lanes that share a row.
inline __device__ float sum_of_row(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}
inline __device__ float maximum_of_row(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

}  // namespace meshwright::exec::cuda
