// Combines equally long vectors to their sum or maximum, in the order in which they are given. It
// works block by block, so that each block is read once and stays in the cache. 16-bit numbers are
// summed in fp32 and rounded once, when the sum is stored.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <type_traits>

#include "exec/core/half.h"
#include "models/core/dtype.h"
#include "models/core/error.h"

namespace meshwright::exec {

// The type in which numbers stored as T are summed.
template <typename T>
using SumOf = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;

constexpr std::int64_t combine_block = 4096;

template <typename T>
void load_numbers(const T* from, std::int64_t count, SumOf<T>* to) {
  if constexpr (std::is_same_v<T, SumOf<T>>)
    std::copy_n(from, count, to);
  else
    widen(from, count, to);
}

template <typename T>
void store_numbers(const SumOf<T>* from, std::int64_t count, T* to) {
  if constexpr (std::is_same_v<T, SumOf<T>>)
    std::copy_n(from, count, to);
  else
    narrow(from, count, to);
}

// Adds `count` sums, at most combine_block, to the numbers at `to` and rounds once.
template <typename T>
void add_numbers(const SumOf<T>* sums, std::int64_t count, T* to) {
  std::array<SumOf<T>, combine_block> total;
  load_numbers(to, count, total.data());
  for (std::int64_t i = 0; i < count; ++i) total[i] += sums[i];
  store_numbers(total.data(), count, to);
}

// Combines `elements` numbers of all parts, of which there is at least one. Calls into(sums, begin,
// count) with the combined elements [begin, begin + count), block by block.
template <typename T, typename Into>
void combine_typed(std::span<const void* const> parts, std::int64_t elements, bool maximum,
                   const Into& into) {
  using Sum = SumOf<T>;
  std::array<Sum, combine_block> block, wide;
  for (std::int64_t begin = 0; begin < elements; begin += combine_block) {
    const std::int64_t count = std::min(combine_block, elements - begin);
    load_numbers(static_cast<const T*>(parts[0]) + begin, count, block.data());
    for (const void* part : parts.subspan(1)) {
      const T* stored = static_cast<const T*>(part) + begin;
      const Sum* x = wide.data();
      if constexpr (std::is_same_v<T, Sum>)
        x = stored;
      else
        load_numbers(stored, count, wide.data());
      Sum* sum = block.data();
      if (maximum)
        for (std::int64_t i = 0; i < count; ++i) sum[i] = std::max(sum[i], x[i]);
      else
        for (std::int64_t i = 0; i < count; ++i) sum[i] += x[i];
    }
    into(block.data(), begin, count);
  }
}

// Calls work.template operator()<T>() with the C++ type of `dtype`. Throws RunError for a type that
// cannot be summed.
template <typename Work>
void with_type(Dtype dtype, const Work& work) {
  switch (dtype) {
    case Dtype::f32:
      return work.template operator()<float>();
    case Dtype::f64:
      return work.template operator()<double>();
    case Dtype::f16:
      return work.template operator()<Half>();
    case Dtype::bf16:
      return work.template operator()<BFloat16>();
    default:
      throw RunError("sums over ranks are made of floating-point numbers of 16, 32 or 64 bits");
  }
}

}  // namespace meshwright::exec
