// Defines in plain C++ the parts of CUDA that kernels are written in.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "tests/cuda_emulation/emulated.h"
#include "tests/cuda_emulation/vector_types.h"

#define __host__
#define __device__
#define __global__
#define __shared__ static  // works because blocks run one after the other
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(bytes) __attribute__((aligned(bytes)))

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
constexpr int warpSize = 32;

inline void __syncthreads() { emulated::barrier(); }
inline void __threadfence() {}
inline void __threadfence_block() {}

namespace emulated {

template <typename T>
std::uint64_t bits_of(T value) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

// Returns the value of lane `from`. If `from` is not in the calling lane's part of `width` lanes,
// returns the own value, as a device does.
template <typename T>
T shuffle(unsigned int mask, T own, int from, int width) {
  const auto all = exchange(mask, bits_of(own));
  const int first = static_cast<int>(lane()) / width * width;
  T value = own;
  if (from >= first && from < first + width)
    std::memcpy(&value, &all[static_cast<std::size_t>(from)], sizeof value);
  exchanged(mask);
  return value;
}

template <typename Test>
unsigned int lanes_with(unsigned int mask, std::uint64_t given, Test test) {
  const auto all = exchange(mask, given);
  unsigned int lanes = 0;
  for (unsigned int i = 0; i < 32; ++i)
    if ((mask >> i & 1U) != 0 && test(all[i])) lanes |= 1U << i;
  exchanged(mask);
  return lanes;
}

template <typename T>
T replace(T* address, T value) {
  const T old = *address;
  *address = value;
  return old;
}

template <typename To, typename From>
To same_bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

}  // namespace emulated

inline void __syncwarp(unsigned int mask = ~0U) {
  emulated::exchange(mask, 0);
  emulated::exchanged(mask);
}
template <typename T>
T __shfl_sync(unsigned int mask, T x, int from, int width = 32) {
  const int first = static_cast<int>(emulated::lane()) / width * width;
  return emulated::shuffle(mask, x, first + (from & (width - 1)), width);
}
template <typename T>
T __shfl_xor_sync(unsigned int mask, T x, int distance, int width = 32) {
  return emulated::shuffle(mask, x, static_cast<int>(emulated::lane()) ^ distance, width);
}
template <typename T>
T __shfl_up_sync(unsigned int mask, T x, unsigned int distance, int width = 32) {
  return emulated::shuffle(mask, x, static_cast<int>(emulated::lane() - distance), width);
}
template <typename T>
T __shfl_down_sync(unsigned int mask, T x, unsigned int distance, int width = 32) {
  return emulated::shuffle(mask, x, static_cast<int>(emulated::lane() + distance), width);
}
// In a warp with fewer than 32 threads, the values of the missing lanes have all bits set. None of
// them is 1, so these lanes are not in the result.
inline unsigned int __ballot_sync(unsigned int mask, int yes) {
  return emulated::lanes_with(mask, yes != 0 ? 1 : 0, [](std::uint64_t x) { return x == 1; });
}
inline int __any_sync(unsigned int mask, int yes) { return __ballot_sync(mask, yes) != 0 ? 1 : 0; }
inline int __all_sync(unsigned int mask, int yes) {
  return __ballot_sync(mask, yes == 0 ? 1 : 0) == 0 ? 1 : 0;
}
template <typename T>
unsigned int __match_any_sync(unsigned int mask, T x) {
  const std::uint64_t own = emulated::bits_of(x);
  return emulated::lanes_with(mask, own, [=](std::uint64_t other) { return other == own; });
}
inline unsigned int __activemask() { return ~0U; }

// Atomic operations. Threads are switched only where they wait for each other, so ordinary reads
// and writes suffice.
template <typename T>
T atomicAdd(T* address, T x) {
  static_assert(std::is_integral_v<T>, "the order of floating-point sums is fixed");
  return emulated::replace(address, static_cast<T>(*address + x));
}
template <typename T>
T atomicMax(T* address, T x) {
  return emulated::replace(address, std::max(*address, x));
}
template <typename T>
T atomicMin(T* address, T x) {
  return emulated::replace(address, std::min(*address, x));
}
template <typename T>
T atomicOr(T* address, T x) {
  return emulated::replace(address, static_cast<T>(*address | x));
}
template <typename T>
T atomicExch(T* address, T x) {
  return emulated::replace(address, x);
}
template <typename T>
T atomicCAS(T* address, T expected, T x) {
  return emulated::replace(address, *address == expected ? x : *address);
}

template <typename T>
T __ldg(const T* address) {
  return *address;
}
inline float __uint_as_float(unsigned int x) { return emulated::same_bits<float>(x); }
inline unsigned int __float_as_uint(float x) { return emulated::same_bits<unsigned int>(x); }
inline float __int_as_float(int x) { return emulated::same_bits<float>(x); }
inline int __float_as_int(float x) { return emulated::same_bits<int>(x); }
inline double __longlong_as_double(long long x) { return emulated::same_bits<double>(x); }
inline long long __double_as_longlong(double x) { return emulated::same_bits<long long>(x); }

inline int __popc(unsigned int x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned int>(x)); }
inline unsigned int __umulhi(unsigned int a, unsigned int b) {
  return static_cast<unsigned int>(std::uint64_t{a} * b >> 32U);
}

using std::isfinite;
using std::isinf;
using std::isnan;
using std::max;
using std::min;
inline float rsqrtf(float x) { return 1.0F / std::sqrt(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __frcp_rn(float x) { return 1.0F / x; }
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __log2f(float x) { return std::log2(x); }

// float_of_half() and half_of_float() convert between fp16 and fp32, which a device does by
// instructions.
float float_of_half(unsigned short bits);
unsigned short half_of_float(float x);
template <typename T>
const T* again(const T* address) {
  return address;
}
