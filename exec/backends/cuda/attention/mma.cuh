// Instructions for which CUDA C++ has no words: products of 16-bit tiles on tensor cores, loads of
// their operands from shared memory, and asynchronous copies to shared memory. GPUs before compute
// capability 8.0 do the same with ordinary instructions (mma_by_lanes.cuh). Layouts: PTX ISA,
// "Matrix Fragments for mma.m16n8k16 with floating point type" and "ldmatrix". Each function that
// kernels call also has a form for the tests' emulation of a device.
#pragma once

#include "exec/backends/cuda/attention/mma_by_lanes.cuh"
#include "exec/backends/cuda/device/prelude.cuh"

#ifndef __CUDACC__
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>
#endif

namespace meshwright::exec::cuda {

#ifdef __CUDACC__

// Returns 2^x with a relative error of at most 2^-22. Denormal results become 0.
__device__ inline float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800

using by_lanes::copies_commit;
using by_lanes::copies_wait;
using by_lanes::copy_async_16;
using by_lanes::copy_async_4;
using by_lanes::load_matrix_x4;
using by_lanes::load_matrix_x4_transposed;
using by_lanes::mma_16x8x16;
using by_lanes::packed;

#else

// Computes d[16,8] += a[16,16] b[16,8] on a warp. With g = lane / 4 and t = lane % 4, a lane holds
// these elements, two of a row or column in 32 bits, the lower one first:
//   a: (g, 2t), (g+8, 2t), (g, 2t+8), (g+8, 2t+8) and their right neighbours,
//   b: (2t, g), (2t+8, g) and those below,
//   d: (g, 2t), (g, 2t+1), (g+8, 2t), (g+8, 2t+1).
template <typename T>
__device__ inline void mma_16x8x16(float (&d)[4], const unsigned int (&a)[4],
                                   const unsigned int (&b)[2]);
template <>
__device__ inline void mma_16x8x16<f16>(float (&d)[4], const unsigned int (&a)[4],
                                        const unsigned int (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
template <>
__device__ inline void mma_16x8x16<bf16>(float (&d)[4], const unsigned int (&a)[4],
                                         const unsigned int (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
      "{%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ inline unsigned int shared_address(const void* in_shared) {
  return static_cast<unsigned int>(__cvta_generic_to_shared(in_shared));
}

// Loads four matrices of 8 x 8 elements of 16 bits from shared memory. Lane l gives the address of
// row l % 8 of matrix l / 8, 16 bytes, and gets elements 2t and 2t+1 of row g of each matrix.
__device__ inline void load_matrix_x4(unsigned int (&matrices)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
               : "r"(shared_address(row))
               : "memory");
}
// Loads four matrices transposed: a lane gets elements 2t and 2t+1 of column g of each matrix.
__device__ inline void load_matrix_x4_transposed(unsigned int (&matrices)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
               : "r"(shared_address(row))
               : "memory");
}

// copy_async_16() and copy_async_4() copy 16 and 4 bytes to shared memory, or write zeros if not
// `valid`. The bytes can be read after copies_commit(), copies_wait() and a barrier.
__device__ inline void copy_async_16(void* to_shared, const void* from, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to_shared)),
               "l"(from), "r"(valid ? 16 : 0)
               : "memory");
}
__device__ inline void copy_async_4(void* to_shared, const void* from, bool valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to_shared)),
               "l"(from), "r"(valid ? 4 : 0)
               : "memory");
}
// Makes one group of the copies that this thread issued since the last group.
__device__ inline void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until all of this thread's groups have arrived, except the `pending` newest.
template <int pending>
__device__ inline void copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

// Returns two elements in 32 bits, rounded to nearest, with `low` in the lower half.
template <typename T>
__device__ inline unsigned int packed(float low, float high);
template <>
__device__ inline unsigned int packed<f16>(float low, float high) {
  unsigned int both;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
template <>
__device__ inline unsigned int packed<bf16>(float low, float high) {
  unsigned int both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

#endif

#else

namespace emulated_warp {

inline bool by_lanes_only() { return emulated::hardware().major < 8; }

using Row = float __attribute__((vector_size(32)));

// The matrices of a warp's product. Each warp has two of these objects, so that a lane which is
// already at the next product does not overwrite matrices that others still read.
struct Matrices {
  bool are_multiplied;
  float a[16][16];
  Row b[16], sums[16];
};
inline Matrices matrices[1024 / 32][2];
inline std::uint32_t products_of[1024];  // number of products of each thread

template <typename T>
float element(unsigned int both, int half) {
  return widened(T{static_cast<unsigned short>(half == 0 ? both : both >> 16U)});
}

// Multiplies, in the emulation of a device. This takes most of the time of the device's tests, so
// sanitizers skip it.
__attribute__((no_sanitize("address", "undefined"))) inline void multiply(Matrices& of) {
  for (unsigned int row = 0; row < 16; ++row) {
    Row sums = {};
    for (unsigned int k = 0; k < 16; ++k) sums += of.a[row][k] * of.b[k];
    of.sums[row] = sums;
  }
  of.are_multiplied = true;
}

// Returns a function that maps a lane of the calling thread's warp to the row whose address the
// lane gave.
inline auto rows(const void* row) {
  const auto addresses = emulated::exchange(~0U, reinterpret_cast<std::uintptr_t>(row));
  return
      [=](unsigned int lane) { return reinterpret_cast<const unsigned short*>(addresses[lane]); };
}

// An asynchronous copy, in the emulation of a GPU that has such copies (from 8.0 on). It is done
// only when it is waited for. Until then the target's bytes are 0xff, which read as NaN.
struct Copy {
  void* to;
  const void* from;
  std::size_t bytes;
  bool valid;
};
struct Copies {
  std::vector<Copy> open;
  std::vector<std::vector<Copy> > groups;
};
inline std::array<Copies, 1024> copies;

inline void copy(const Copy& wanted) {
  std::memset(wanted.to, 0xff, wanted.bytes);
  copies[threadIdx.x].open.push_back(wanted);
}

}  // namespace emulated_warp

template <typename T>
void mma_16x8x16(float (&d)[4], const unsigned int (&a)[4], const unsigned int (&b)[2]) {
  if (emulated_warp::by_lanes_only()) return by_lanes::mma_16x8x16<T>(d, a, b);
  emulated_warp::Matrices& of =
      emulated_warp::matrices[threadIdx.x / 32][++emulated_warp::products_of[threadIdx.x] % 2];
  const unsigned int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  of.are_multiplied = false;
  for (unsigned int i = 0; i < 8; ++i)
    of.a[g + i / 2 % 2 * 8][2 * t + i % 2 + i / 4 * 8] =
        emulated_warp::element<T>(a[i / 2], static_cast<int>(i % 2));
  for (unsigned int i = 0; i < 4; ++i)
    of.b[2 * t + i % 2 + i / 2 * 8][g] =
        emulated_warp::element<T>(b[i / 2], static_cast<int>(i % 2));
  emulated::exchange(~0U, 0);
  if (!of.are_multiplied) multiply(of);  // the first lane that gets here, for the whole warp
  for (unsigned int i = 0; i < 4; ++i) d[i] += of.sums[g + i / 2 * 8][2 * t + i % 2];
}

inline void load_matrix_x4(unsigned int (&matrices)[4], const void* row) {
  if (emulated_warp::by_lanes_only()) return by_lanes::load_matrix_x4(matrices, row);
  const auto row_of = emulated_warp::rows(row);
  const unsigned int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  for (unsigned int i = 0; i < 4; ++i) {
    const unsigned short* from = row_of(8 * i + g) + 2 * t;
    matrices[i] = from[0] | static_cast<unsigned int>(from[1]) << 16U;
  }
}
inline void load_matrix_x4_transposed(unsigned int (&matrices)[4], const void* row) {
  if (emulated_warp::by_lanes_only()) return by_lanes::load_matrix_x4_transposed(matrices, row);
  const auto row_of = emulated_warp::rows(row);
  const unsigned int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  for (unsigned int i = 0; i < 4; ++i) {
    const unsigned short low = row_of(8 * i + 2 * t)[g];
    const unsigned short high = row_of(8 * i + 2 * t + 1)[g];
    matrices[i] = low | static_cast<unsigned int>(high) << 16U;
  }
}

inline void copy_async_16(void* to_shared, const void* from, bool valid) {
  if (emulated_warp::by_lanes_only()) return by_lanes::copy_async_16(to_shared, from, valid);
  emulated_warp::copy({to_shared, from, 16, valid});
}
inline void copy_async_4(void* to_shared, const void* from, bool valid) {
  if (emulated_warp::by_lanes_only()) return by_lanes::copy_async_4(to_shared, from, valid);
  emulated_warp::copy({to_shared, from, 4, valid});
}
inline void copies_commit() {
  emulated_warp::Copies& own = emulated_warp::copies[threadIdx.x];
  own.groups.push_back(std::exchange(own.open, {}));
}
template <int pending>
void copies_wait() {
  auto& groups = emulated_warp::copies[threadIdx.x].groups;
  while (groups.size() > pending) {
    for (const emulated_warp::Copy& each : groups.front()) {
      if (each.valid)
        std::memcpy(each.to, each.from, each.bytes);
      else
        std::memset(each.to, 0, each.bytes);
    }
    groups.erase(groups.begin());
  }
}

inline float fast_exp2(float x) { return std::exp2(x); }

using by_lanes::packed;

#endif

}  // namespace meshwright::exec::cuda
