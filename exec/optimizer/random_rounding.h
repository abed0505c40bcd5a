// Rounds moments to bf16 at random. An fp32 number goes to one of its two neighbours in bf16, to
// the one of larger magnitude with probability (distance from the other) / (distance of the two),
// so that the mean is the number itself. fp32 has 16 bits more. Their sum with 16 random bits
// carries with exactly this probability. The random bits depend only on (seed, parameter's name,
// number of the update, place in the whole parameter, which moment), so they are the same however a
// parameter is split.
#pragma once

#include <cstdint>
#include <string_view>

#include "exec/core/half.h"

#ifdef __CUDACC__
#define MESHWRIGHT_ON_DEVICES_TOO __host__ __device__
#else
#define MESHWRIGHT_ON_DEVICES_TOO
#endif

namespace meshwright::exec {

// Maps the elements of a rank's part of a parameter to the whole parameter. A row of the part has
// `held` indices, each of `inner` neighbouring elements. A row of the whole parameter has `whole`
// indices.
struct WholePlaces {
  static constexpr int most_segments = 4;
  std::int64_t inner = 1, held = 0, whole = 0;  // held 0: nothing is cut inside rows
  std::int64_t first = 0;                       // elements before the part's first row
  int segments = 1;                             // ranges of the held indices, each with its shift
  std::int64_t begin[most_segments] = {}, shift[most_segments] = {};
};

// The element's index in the whole parameter. `count` elements from this one on are neighbours
// there too.
struct WholePlace {
  std::int64_t place = 0, count = 0;
};

// Returns the place of element i of the part.
MESHWRIGHT_ON_DEVICES_TOO inline WholePlace whole_place(const WholePlaces& places, std::int64_t i) {
  constexpr std::int64_t endless = std::int64_t{1} << 62;
  if (places.held == 0) return {places.first + i, endless};
  std::int64_t index = 0, row = 0;
  if (((i | places.inner | places.held) >> 32) == 0) {  // a device divides 32 bits much faster
    const auto short_index =
        static_cast<std::uint32_t>(i) / static_cast<std::uint32_t>(places.inner);
    index = short_index;
    row = short_index / static_cast<std::uint32_t>(places.held);
  } else {
    index = i / places.inner;
    row = index / places.held;
  }
  const std::int64_t behind = i - index * places.inner;
  index -= row * places.held;
  std::int64_t shift = places.shift[0], end = places.held;
  for (int s = 1; s < WholePlaces::most_segments; ++s) {
    if (s >= places.segments) continue;
    if (places.begin[s] <= index)
      shift = places.shift[s];
    else if (places.begin[s] < end)
      end = places.begin[s];
  }
  return {places.first + (row * places.whole + index + shift) * places.inner + behind,
          (end - index) * places.inner - behind};
}

// The key and the places for random rounding of one parameter on one rank.
struct RandomRounding {
  std::uint64_t key = 0;
  WholePlaces places;
};

// Returns the key for a run's seed and a parameter's name.
std::uint64_t rounding_key(std::uint64_t seed, std::string_view parameter);

// Writes a word for each of `count` elements of the part from `first` on, in the update with this
// number. The lower half is for the first moment, the upper half for the second. Four places share
// a Philox block.
void random_words(const RandomRounding& rounding, std::int64_t update, std::int64_t first,
                  std::int64_t count, std::uint32_t* words);

// Returns the number in bf16: adds `random` to its lower 16 bits, then cuts these off. NaN stays
// NaN. Among finite numbers, only those beyond the largest bf16 can become infinite.
BFloat16 rounded_at_random(float number, std::uint16_t random);

// Rounds `count` numbers at random, each by one half of its word: the lower half if `shift` is 0,
// the upper half if it is 16.
void narrow_at_random(const float* from, std::int64_t count, const std::uint32_t* words, int shift,
                      BFloat16* to);

}  // namespace meshwright::exec

#undef MESHWRIGHT_ON_DEVICES_TOO
