// Reads and writes weights and optimizer states in the types in which they are stored, except for
// moments in blocks (adam_in_blocks.cu).
#pragma once

#include <cstdint>

#include "exec/backends/cuda/device/types.cuh"
#include "exec/backends/cuda/optimizer/rules.h"
#include "exec/optimizer/random_rounding.h"

namespace meshwright::exec::cuda {

// The two halves of a split fp32 master weight (exec/optimizer/remainders.h): its bf16 copy, and
// the remainder that the copy lacks. The copy's type also serves for masters that are kept whole.
struct CopyOfMaster {
  unsigned short bits;
};
struct Remainder {
  short bits;
};

inline __device__ void split(float number, CopyOfMaster& upper, Remainder& remainder) {
  const unsigned int bits = __float_as_uint(number);
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  const unsigned int kept = is_nan ? (bits & 0xffff0000u) | 0x00400000u : bits;
  upper.bits = static_cast<unsigned short>((kept + 0x8000u) >> 16);
  remainder.bits = static_cast<short>(kept);
}
inline __device__ float join(CopyOfMaster upper, Remainder remainder) {
  const unsigned int kept = upper.bits - (remainder.bits < 0 ? 1u : 0u);
  return __uint_as_float(kept << 16 | static_cast<unsigned short>(remainder.bits));
}
inline __device__ void narrow(float x, CopyOfMaster& to) {
  Remainder lost;
  split(x, to, lost);
}

// The type of a bf16 moment that is rounded at random.
struct RandomBf16 : bf16 {};

// Returns x rounded at random to bf16, as exec/optimizer/random_rounding.h does. `random` has 16
// random bits.
inline __device__ float rounded_at_random(float x, unsigned int random) {
  const unsigned int bits = __float_as_uint(x);
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return __uint_as_float((is_nan ? bits | 0x00400000u : bits + random) & 0xffff0000u);
}

// Writes the random words of n elements, from element `first` of the rank's part on, as
// random_words in exec/optimizer/random_rounding.h does.
template <int n>
__device__ void random_words(const RandomRounding& rounding, std::int64_t update,
                             std::int64_t first, unsigned int (&words)[n]) {
  WholePlace run = whole_place(rounding.places, first);
  std::int64_t block = -1;
  Random four = {};
#pragma unroll
  for (int j = 0; j < n; ++j) {
    if (j > 0) {
      if (--run.count > 0)
        ++run.place;
      else
        run = whole_place(rounding.places, first + j);
    }
    if (run.place / 4 != block) {
      block = run.place / 4;
      four = philox(static_cast<unsigned int>(block), static_cast<unsigned int>(block >> 32),
                    static_cast<unsigned int>(update), static_cast<unsigned int>(update >> 32),
                    rounding.key);
    }
    const int place = static_cast<int>(run.place % 4);
    words[j] = place == 0   ? four.word[0]
               : place == 1 ? four.word[1]
               : place == 2 ? four.word[2]
                            : four.word[3];
  }
}

// Rounds the moments of n elements. Only RandomBf16 needs a random word for each of them: the lower
// half for the first moment, the upper half for the second.
template <typename M, int n>
struct Roundings {
  template <typename Segment>
  __device__ Roundings(const Segment&, std::int64_t, std::int64_t) {}
  __device__ void apply(float (&)[n], float (&)[n]) const {}
};
template <int n>
struct Roundings<RandomBf16, n> {
  unsigned int words[n];
  // Makes the words for the n elements of the bucket from element i on.
  template <typename Segment>
  __device__ Roundings(const Segment& segment, std::int64_t update, std::int64_t i) {
    random_words(segment.rounding, update, segment.first + (i - segment.begin), words);
  }
  __device__ void apply(float (&first)[n], float (&second)[n]) const {
#pragma unroll
    for (int j = 0; j < n; ++j) {
      first[j] = rounded_at_random(first[j], words[j] & 0xffffu);
      second[j] = rounded_at_random(second[j], words[j] >> 16);
    }
  }
};

// The arrays of a bucket and their types: gradients G, masters P (or weights if there are no
// masters), moments M, and the copy W of the weights. W is float if there is no copy.
template <typename G, typename P, typename W, typename M>
struct Arrays {
  using Moment = M;
  P* weights;
  const G* gradients;
  M *first, *second;
  W* working;
  float* average;  // null: there is none
  bool in_groups;  // every group of each array is aligned
};

template <typename P, typename W>
__device__ float weight_at(const P* weights, const W*, std::int64_t i) {
  return widened(weights[i]);
}
inline __device__ float weight_at(const Remainder* weights, const CopyOfMaster* working,
                                  std::int64_t i) {
  return join(working[i], weights[i]);
}
template <typename P, typename W>
__device__ void put_weight(P* weights, W* working, std::int64_t i, float weight) {
  narrow(weight, weights[i]);
  if (sizeof(W) == 2) narrow(weight, working[i]);
}
inline __device__ void put_weight(Remainder* weights, CopyOfMaster* working, std::int64_t i,
                                  float weight) {
  split(weight, working[i], weights[i]);
}

template <typename P, typename W>
__device__ void load_weights(const P* weights, const W*, std::int64_t i, float (&to)[group]) {
  load<group>(weights + i, to);
}
inline __device__ void load_weights(const Remainder* weights, const CopyOfMaster* working,
                                    std::int64_t i, float (&to)[group]) {
  const auto lower = *reinterpret_cast<const Chunk<Remainder, group>*>(weights + i);
  const auto upper = *reinterpret_cast<const Chunk<CopyOfMaster, group>*>(working + i);
#pragma unroll
  for (int j = 0; j < group; ++j) to[j] = join(upper.element[j], lower.element[j]);
}
template <typename P, typename W>
__device__ void store_weights(P* weights, W* working, std::int64_t i, const float (&from)[group]) {
  store<group>(weights + i, from);
  if (sizeof(W) == 2) store<group>(working + i, from);
}
inline __device__ void store_weights(Remainder* weights, CopyOfMaster* working, std::int64_t i,
                                     const float (&from)[group]) {
  Chunk<Remainder, group> lower;
  Chunk<CopyOfMaster, group> upper;
#pragma unroll
  for (int j = 0; j < group; ++j) split(from[j], upper.element[j], lower.element[j]);
  *reinterpret_cast<Chunk<Remainder, group>*>(weights + i) = lower;
  *reinterpret_cast<Chunk<CopyOfMaster, group>*>(working + i) = upper;
}

template <typename T>
bool is_aligned(const T* address) {
  return reinterpret_cast<std::uintptr_t>(address) % (group * sizeof(T)) == 0;
}

template <typename G, typename P, typename W, typename M>
Arrays<G, P, W, M> arrays_of(const OptimizerState& state) {
  Arrays<G, P, W, M> arrays{static_cast<P*>(state.weights),
                            static_cast<const G*>(state.gradients),
                            static_cast<M*>(state.first_moment),
                            static_cast<M*>(state.second_moment),
                            static_cast<W*>(state.working),
                            static_cast<float*>(state.average),
                            false};
  arrays.in_groups = is_aligned(arrays.weights) && is_aligned(arrays.gradients) &&
                     is_aligned(arrays.first) && is_aligned(arrays.second) &&
                     is_aligned(arrays.working) && is_aligned(arrays.average);
  return arrays;
}

// Calls work.operator()<P, W>() with the types of the masters and of the copy of the weights that
// is made from them. Without masters, P is the type of the weights. Without a copy, W is float.
template <typename Work>
void with_masters(const OptimizerState& state, const Work& work) {
  if (state.weights_type == Dtype::i16) return work.template operator()<Remainder, CopyOfMaster>();
  if (state.working == nullptr)
    return with_type(state.weights_type,
                     [&]<typename P>(P) { work.template operator()<P, float>(); });
  if (state.working_type == Dtype::bf16) return work.template operator()<float, CopyOfMaster>();
  MESHWRIGHT_CHECK(state.working_type == Dtype::f16, "a copy of masters has 16 bits");
  work.template operator()<float, f16>();
}

// Calls `work` with a value of the type of moments that are not in blocks. Only moments that are
// `written` need to be rounded at random.
template <bool written, typename Work>
void with_moments(const OptimizerState& state, const Work& work) {
  if (state.moment_type != Dtype::bf16) return work(float{});
  if constexpr (written)
    if (state.moments_at_random) return work(RandomBf16{});
  work(bf16{});
}

// Calls work(arrays) with the arrays of a bucket in their types, for a rule that writes moments
// which are not in blocks.
template <typename Work>
void with_arrays(const OptimizerState& state, const Work& work) {
  with_masters(state, [&]<typename P, typename W>() {
    with_type(state.gradient_type, [&]<typename G>(G) {
      with_moments<true>(state, [&]<typename M>(M) { work(arrays_of<G, P, W, M>(state)); });
    });
  });
}

}  // namespace meshwright::exec::cuda
