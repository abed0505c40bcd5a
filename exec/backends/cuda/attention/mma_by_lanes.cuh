// Replaces the instructions of mma.cuh for GPUs before compute capability 8.0, which have no tensor
// cores or tensor cores of other sizes. It uses ordinary instructions and the same layouts. In
// products and loads, lanes read each other's registers, so every lane of a warp must call them.
#pragma once

#include "exec/backends/cuda/device/launch.h"
#include "exec/backends/cuda/device/prelude.cuh"

namespace meshwright::exec::cuda::by_lanes {

// Returns two neighbouring 16-bit elements from the register `own` of another lane, as fp32.
template <typename T>
__device__ inline float2 pair_of(unsigned int own, int lane) {
  const unsigned int both = __shfl_sync(0xffffffffu, own, lane);
  return make_float2(widened(T{static_cast<unsigned short>(both & 0xffffu)}),
                     widened(T{static_cast<unsigned short>(both >> 16)}));
}

// Returns d plus the product of the warp's tiles a and b, in the layouts of mma.cuh. In each group
// of four lanes, lane `from` has columns 2 from, 2 from + 1, 2 from + 8 and 2 from + 9 of its rows
// of a, and the same rows of its column of b. This is a call, because hundreds of copies of it in a
// kernel would not fit the instruction cache.
template <typename T>
__device__ __attribute__((noinline)) float4 sum_of_products(float4 d, uint4 a, uint2 b) {
  const int lane = static_cast<int>(threadIdx.x) % 32, t = lane % 4;
#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int from = 0; from < 4; ++from) {
      const float2 upper = pair_of<T>(half == 0 ? a.x : a.z, lane - t + from),
                   lower = pair_of<T>(half == 0 ? a.y : a.w, lane - t + from),
                   left = pair_of<T>(half == 0 ? b.x : b.y, 8 * t + from),
                   right = pair_of<T>(half == 0 ? b.x : b.y, 8 * t + 4 + from);
      d.x = fmaf(upper.y, left.y, fmaf(upper.x, left.x, d.x));
      d.y = fmaf(upper.y, right.y, fmaf(upper.x, right.x, d.y));
      d.z = fmaf(lower.y, left.y, fmaf(lower.x, left.x, d.z));
      d.w = fmaf(lower.y, right.y, fmaf(lower.x, right.x, d.w));
    }
  return d;
}
template <typename T>
__device__ inline void mma_16x8x16(float (&d)[4], const unsigned int (&a)[4],
                                   const unsigned int (&b)[2]) {
  const float4 sum = sum_of_products<T>(make_float4(d[0], d[1], d[2], d[3]),
                                        make_uint4(a[0], a[1], a[2], a[3]), make_uint2(b[0], b[1]));
  d[0] = sum.x;
  d[1] = sum.y;
  d[2] = sum.z;
  d[3] = sum.w;
}

// Returns the address in shared memory of the row that another lane points at.
__device__ inline const unsigned char* row_of(const void* own, int lane) {
  const int place = static_cast<int>(static_cast<const unsigned char*>(own) - shared_memory());
  return shared_memory() + __shfl_sync(0xffffffffu, place, lane);
}

// Loads four matrices as load_matrix_x4() does. It is a call for the reason given at
// sum_of_products().
inline __device__ __attribute__((noinline)) uint4 loaded(const void* row) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto matrix = [&](int i) {
    return reinterpret_cast<const unsigned int*>(row_of(row, 8 * i + lane / 4))[lane % 4];
  };
  return {matrix(0), matrix(1), matrix(2), matrix(3)};
}
inline __device__ __attribute__((noinline)) uint4 loaded_transposed(const void* row) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto element = [&](int of_matrices) -> unsigned int {
    return reinterpret_cast<const unsigned short*>(row_of(row, of_matrices))[lane / 4];
  };
  const auto matrix = [&](int i) {
    const unsigned int low = element(8 * i + lane % 4 * 2);
    return low | element(8 * i + lane % 4 * 2 + 1) << 16;
  };
  return {matrix(0), matrix(1), matrix(2), matrix(3)};
}
__device__ inline void load_matrix_x4(unsigned int (&matrices)[4], const void* row) {
  const uint4 all = loaded(row);
  matrices[0] = all.x;
  matrices[1] = all.y;
  matrices[2] = all.z;
  matrices[3] = all.w;
}
__device__ inline void load_matrix_x4_transposed(unsigned int (&matrices)[4], const void* row) {
  const uint4 all = loaded_transposed(row);
  matrices[0] = all.x;
  matrices[1] = all.y;
  matrices[2] = all.z;
  matrices[3] = all.w;
}

// Copies at once, so that nothing is left to wait for. Writes zeros if not `valid`.
__device__ inline void copy_async_16(void* to_shared, const void* from, bool valid) {
  *static_cast<uint4*>(to_shared) =
      valid ? *static_cast<const uint4*>(from) : make_uint4(0u, 0u, 0u, 0u);
}
__device__ inline void copy_async_4(void* to_shared, const void* from, bool valid) {
  *static_cast<unsigned int*>(to_shared) = valid ? *static_cast<const unsigned int*>(from) : 0u;
}
__device__ inline void copies_commit() {}
template <int pending>
__device__ inline void copies_wait() {}

template <typename T>
__device__ inline unsigned int packed(float low, float high) {
  T both[2];
  narrow(low, both[0]);
  narrow(high, both[1]);
  return both[0].bits | static_cast<unsigned int>(both[1].bits) << 16;
}

}  // namespace meshwright::exec::cuda::by_lanes
