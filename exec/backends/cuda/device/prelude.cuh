// Code that kernels share: 16-bit types, vector accesses, sums over a row, Philox, the activation
// functions. The lines between the marks "begin" and "end" are also compiled at run time before the
// kernels of fused operations (fused_source.h), so they use only what CUDA's run-time compiler
// knows without headers.
#pragma once

#include <cuda_runtime.h>

namespace meshwright::exec::cuda {

// ---- begin
// 16-bit types in which numbers are stored. Kernels widen the numbers to fp32 to compute with them,
// except in products on tensor cores.
struct f16 {
  unsigned short bits;
};
struct bf16 {
  unsigned short bits;
};

#ifdef __CUDACC__
inline __device__ float float_of_half(unsigned short bits) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
  return x;
}
inline __device__ unsigned short half_of_float(float x) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}
// Returns the same address, but hides from the compiler that it is the same. Otherwise the compiler
// would keep elements in registers instead of loading them a second time.
template <typename T>
inline __device__ const T* again(const T* address) {
  asm volatile("" : "+l"(address));
  return address;
}
#endif

inline __device__ float widened(float x) { return x; }
inline __device__ float widened(f16 x) { return float_of_half(x.bits); }
inline __device__ float widened(bf16 x) { return __uint_as_float((unsigned int)x.bits << 16); }

inline __device__ void narrow(float x, float& to) { to = x; }
inline __device__ void narrow(float x, f16& to) { to.bits = half_of_float(x); }
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
// Returns two bf16 numbers in one word, each rounded to nearest, ties to even. GPUs have one
// instruction for this from Ampere on.
inline __device__ unsigned int two_bf16(float low, float high) {
  unsigned int both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
inline __device__ void narrow(float x, bf16& to) { to.bits = (unsigned short)two_bf16(x, 0.0f); }
#else
// Rounds to the nearest bf16, ties to even, on bits. Adding 0x7fff, and 1 more if the lowest bit
// that stays is 1, carries into the upper 16 bits exactly if the magnitude must be rounded up. A
// NaN stays a NaN.
inline __device__ void narrow(float x, bf16& to) {
  const unsigned int bits = __float_as_uint(x);
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  to.bits =
      (unsigned short)(is_nan ? bits >> 16 | 0x40u : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
#endif

// Returns x as it is after it was stored as a T and loaded again.
template <typename T>
inline __device__ float rounded(float x) {
  T stored;
  narrow(x, stored);
  return widened(stored);
}
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
template <>
inline __device__ float rounded<bf16>(float x) {
  return __uint_as_float(two_bf16(0.0f, x));
}
#endif

// n neighbouring elements, aligned so that they are moved 16 bytes at a time, or all at once if
// they have fewer bytes.
template <typename T, int n>
struct alignas(sizeof(T) * n < 16 ? sizeof(T) * n : 16) Chunk {
  T element[n];
};
// n elements in 32-bit registers, with the same bits as in memory. Two elements of 16 bits share a
// register. The elements must fill whole registers.
template <typename T, int n>
struct Packed {
  static constexpr int words = n * (int)sizeof(T) / 4;
  struct alignas(words < 4 ? 4 * words : 16) Words {
    unsigned int word[words];
  } of;
};
template <int n, typename T>
inline __device__ Packed<T, n> packed_at(const T* from) {
  using Words = typename Packed<T, n>::Words;
  return {*reinterpret_cast<const Words*>(from)};
}
inline __device__ float half_of_word(float, unsigned int word, int) {
  return __uint_as_float(word);
}
inline __device__ float half_of_word(bf16, unsigned int word, int half) {
  return __uint_as_float(half == 0 ? word << 16 : word & 0xffff0000u);
}
inline __device__ float half_of_word(f16, unsigned int word, int half) {
  return float_of_half((unsigned short)(half == 0 ? word : word >> 16));
}
template <int n, typename T>
inline __device__ void widen(const Packed<T, n>& from, float* to) {
#pragma unroll
  for (int j = 0; j < n; ++j) {
    constexpr int of_word = 4 / (int)sizeof(T);
    to[j] = half_of_word(T{}, from.of.word[j / of_word], j % of_word);
  }
}
template <int n, typename T>
inline __device__ void load(const T* from, float* to) {
  if constexpr (n * sizeof(T) % 4 == 0) {
    widen<n>(packed_at<n>(from), to);
  } else {
    const Chunk<T, n> chunk = *reinterpret_cast<const Chunk<T, n>*>(from);
#pragma unroll
    for (int j = 0; j < n; ++j) to[j] = widened(chunk.element[j]);
  }
}
template <int n, typename T>
inline __device__ void store(T* to, const float* from) {
  Chunk<T, n> chunk;
#pragma unroll
  for (int j = 0; j < n; ++j) narrow(from[j], chunk.element[j]);
  *reinterpret_cast<Chunk<T, n>*>(to) = chunk;
}

// Stores numbers that T can hold exactly, so that nothing is rounded.
template <int n, typename T>
inline __device__ void store_exact(T* to, const float* from) {
  store<n>(to, from);
}
template <int n>
inline __device__ void store_exact(bf16* to, const float* from) {
  if constexpr (n % 2 == 0) {
    typename Packed<bf16, n>::Words words;
#pragma unroll
    for (int j = 0; j < n; j += 2)
      words.word[j / 2] =
          __float_as_uint(from[j]) >> 16 | (__float_as_uint(from[j + 1]) & 0xffff0000u);
    *reinterpret_cast<typename Packed<bf16, n>::Words*>(to) = words;
  } else {
    store<n>(to, from);
  }
}

// Sums over the threads of a row: a warp (`threads` is 32) or the whole block. Every thread of the
// row gets the same bits. A kernel whose rows are blocks must pass 0 and 1 alternately as `turn`.
// Before a call writes to shared memory, all threads have then read what the call before the last
// one wrote there, so one barrier is enough.
template <int threads, int n>
inline __device__ void add_over_row(float (&sum)[n], int turn) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
#pragma unroll
    for (int s = 0; s < n; ++s) sum[s] += __shfl_xor_sync(0xffffffffu, sum[s], distance);
  }
  if constexpr (threads > 32) {
    constexpr int warps = threads / 32;
    __shared__ float of_warp[2][n][warps];
    if (threadIdx.x % 32 == 0) {
#pragma unroll
      for (int s = 0; s < n; ++s) of_warp[turn][s][threadIdx.x / 32] = sum[s];
    }
    __syncthreads();
#pragma unroll
    for (int s = 0; s < n; ++s) {
      sum[s] = 0.0f;
#pragma unroll 8
      for (int warp = 0; warp < warps; ++warp) sum[s] += of_warp[turn][s][warp];
    }
  }
}
// Sums as the function above, but needs no `turn`: if rows are blocks, it first waits until all
// threads have read the sums of earlier calls.
template <int threads, int n>
inline __device__ void add_over_row(float (&sum)[n]) {
  if (threads > 32) __syncthreads();  // all threads have read earlier sums
  add_over_row<threads>(sum, 0);
}

// One block, four words, of the random-number generator Philox4x32-10 (Salmon et al., SC 2011).
struct Random {
  unsigned int word[4];
};
inline __device__ Random philox(unsigned int c0, unsigned int c1, unsigned int c2, unsigned int c3,
                                unsigned long long key) {
  unsigned int k0 = (unsigned int)key, k1 = (unsigned int)(key >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const unsigned long long p0 = 0xD2511F53ull * c0, p1 = 0xCD9E8D57ull * c2;
    c0 = (unsigned int)(p1 >> 32) ^ c1 ^ k0;
    c1 = (unsigned int)p1;
    c2 = (unsigned int)(p0 >> 32) ^ c3 ^ k1;
    c3 = (unsigned int)p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}
// Sets `words` to the random words of the n columns from `column` on. Four columns share a block of
// Philox. If n is a multiple of 4, `column` must be one too.
template <int n>
inline __device__ void random_words(unsigned int (&words)[n], unsigned long long key,
                                    long long sequence, long long row, long long column) {
  Random four = {};
#pragma unroll
  for (int j = 0; j < n; ++j) {
    if (n % 4 != 0 || j % 4 == 0)
      four = philox((unsigned int)((column + j) / 4), (unsigned int)row, (unsigned int)sequence,
                    (unsigned int)((unsigned long long)sequence >> 32), key);
    const int place = n % 4 == 0 ? j % 4 : (int)((column + j) % 4);
    words[j] = place == 0   ? four.word[0]
               : place == 1 ? four.word[1]
               : place == 2 ? four.word[2]
                            : four.word[3];
  }
}

// Returns the position in the sequence of element `token` of the `held` tokens that a rank of a
// context group of `degree` ranks holds. The sequence is cut into 2 * degree pieces, and rank r
// holds pieces r and 2 * degree - 1 - r, so that all ranks have equal work under a causal mask.
inline __device__ long long context_position(int degree, int rank, long long held,
                                             long long token) {
  if (degree == 1) return token;
  const long long half = held / 2;
  return token < half ? rank * half + token : (2 * degree - 1 - rank) * half + token - half;
}

inline __device__ float square(float x) { return x * x; }
// The fast division calls no subroutine, unlike an exact one. Its error is at most 2 units in the
// last place for denominators up to 2^126, and the quotient is 0 for larger ones.
inline __device__ float sigmoid(float x) { return __fdividef(1.0f, 1.0f + expf(-x)); }
inline __device__ float silu(float x) { return x * sigmoid(x); }
inline __device__ float silu_slope(float x) {
  const float s = sigmoid(x);
  return s + x * s * (1.0f - s);
}
inline __device__ float normal_cdf(float x) { return 0.5f * erfcf(x * -0.707106781f); }
inline __device__ float gelu_erf(float x) { return x * normal_cdf(x); }
inline __device__ float gelu_erf_slope(float x) {
  return normal_cdf(x) + x * 0.398942280f * expf(-0.5f * x * x);
}
// The tanh form of GELU is x (1 + tanh u) / 2 = x sigmoid(2u) with u = sqrt(2/pi) (x + 0.044715
// x^3).
inline __device__ float gelu_tanh(float x) {
  return x * sigmoid(x * (1.59576912f + 0.0713548163f * x * x));
}
inline __device__ float gelu_tanh_slope(float x) {
  const float s = sigmoid(x * (1.59576912f + 0.0713548163f * x * x));
  return s + x * s * (1.0f - s) * (1.59576912f + 0.214064449f * x * x);
}
// ---- end

}  // namespace meshwright::exec::cuda
