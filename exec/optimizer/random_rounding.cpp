#include "exec/optimizer/random_rounding.h"

#include <algorithm>
#include <bit>
#include <string>

#include "exec/core/philox.h"

namespace meshwright::exec {

namespace {

std::uint16_t sum_or_nan(float number, std::uint32_t random) {
  const auto bits = std::bit_cast<std::uint32_t>(number);
  const bool is_nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
  return static_cast<std::uint16_t>(is_nan ? bits >> 16U | 0x40U : (bits + random) >> 16U);
}

// Writes `count` blocks from `first` on, each of four words, in vector code.
void write_blocks(std::uint64_t key, std::int64_t update, std::int64_t first, std::int64_t count,
                  std::uint32_t* words) {
  const auto key_0 = static_cast<std::uint32_t>(key),
             key_1 = static_cast<std::uint32_t>(key >> 32U);
  const auto u = static_cast<std::uint64_t>(update);
  const auto update_0 = static_cast<std::uint32_t>(u),
             update_1 = static_cast<std::uint32_t>(u >> 32U);
#pragma omp simd
  for (std::int64_t b = 0; b < count; ++b) {
    const auto block = static_cast<std::uint64_t>(first + b);
    const PhiloxCounter four =
        philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32U),
                update_0, update_1},
               {key_0, key_1});
    words[4 * b] = four[0];
    words[4 * b + 1] = four[1];
    words[4 * b + 2] = four[2];
    words[4 * b + 3] = four[3];
  }
}

}  // namespace

std::uint64_t rounding_key(std::uint64_t seed, std::string_view parameter) {
  const PhiloxCounter bits = PhiloxStream(seed, "moments of " + std::string(parameter)).block(0);
  return bits[0] | static_cast<std::uint64_t>(bits[1]) << 32U;
}

void random_words(const RandomRounding& rounding, std::int64_t update, std::int64_t first,
                  std::int64_t count, std::uint32_t* words) {
  for (std::int64_t at = 0; at < count;) {
    const WholePlace run = whole_place(rounding.places, first + at);
    const std::int64_t end = run.place + std::min(run.count, count - at);
    for (std::int64_t place = run.place; place < end;) {
      const std::int64_t blocks = (end - place) / 4;
      if (place % 4 == 0 && blocks > 0) {
        write_blocks(rounding.key, update, place / 4, blocks, words + at);
        place += 4 * blocks, at += 4 * blocks;
        continue;
      }
      std::uint32_t four[4];
      write_blocks(rounding.key, update, place / 4, 1, four);
      for (const std::int64_t next = std::min(4 * (place / 4 + 1), end); place < next; ++place)
        words[at++] = four[place % 4];
    }
  }
}

BFloat16 rounded_at_random(float number, std::uint16_t random) {
  return {sum_or_nan(number, random)};
}

void narrow_at_random(const float* from, std::int64_t count, const std::uint32_t* words, int shift,
                      BFloat16* to) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i)
    to[i].bits = sum_or_nan(from[i], words[i] >> shift & 0xFFFFU);
}

}  // namespace meshwright::exec
