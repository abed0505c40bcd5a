// Sums (or maxima) of equally long vectors in a fixed order of their owners, block by block so that
// each block is read once and stays in the cache.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "models/core/dtype.h"
#include "models/core/error.h"

namespace meshwright {

// into(block, begin, count) receives the combined elements [begin, begin + count).
template <typename T, typename Into>
void combine_typed(std::span<const void* const> parts, std::int64_t elements, bool maximum,
                   const Into& into) {
  constexpr std::int64_t block_elements = 4096;
  std::array<T, block_elements> block;
  for (std::int64_t begin = 0; begin < elements; begin += block_elements) {
    const std::int64_t count = std::min(block_elements, elements - begin);
    const T* first = static_cast<const T*>(parts[0]) + begin;
    std::copy(first, first + count, block.data());
    for (const void* part : parts.subspan(1)) {
      const T* x = static_cast<const T*>(part) + begin;
      T* sum = block.data();
      if (maximum)
        for (std::int64_t i = 0; i < count; ++i) sum[i] = std::max(sum[i], x[i]);
      else
        for (std::int64_t i = 0; i < count; ++i) sum[i] += x[i];
    }
    into(block.data(), begin, count);
  }
}

// Calls work.template operator()<T>() with the C++ type of `dtype`.
template <typename Work>
void with_type(Dtype dtype, const Work& work) {
  if (dtype == Dtype::f32)
    work.template operator()<float>();
  else if (dtype == Dtype::f64)
    work.template operator()<double>();
  else
    throw RunError("sums over ranks are made in fp32 or fp64 only");
}

}  // namespace meshwright
