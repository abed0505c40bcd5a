// A counter-based random generator, Philox4x32-10 (Salmon et al., SC 2011): the numbers are a
// function of key and counter, so that any rank can make any of them without the others.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace meshwright::exec {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

constexpr PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key) {
  constexpr std::uint64_t multiplier_0 = 0xD2511F53, multiplier_1 = 0xCD9E8D57;
  constexpr std::uint32_t weyl_0 = 0x9E3779B9, weyl_1 = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = multiplier_0 * counter[0], p1 = multiplier_1 * counter[2];
    counter = {
        static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(p1),
        static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(p0)};
    key[0] += weyl_0;
    key[1] += weyl_1;
  }
  return counter;
}

// The random numbers of one seed and one purpose (a parameter's name, "tokens", ...). Block i holds
// four numbers of 32 bits.
class PhiloxStream {
 public:
  PhiloxStream(std::uint64_t seed, std::string_view purpose);
  PhiloxCounter block(std::uint64_t i) const {
    return philox(
        {static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32),
         static_cast<std::uint32_t>(purpose_), static_cast<std::uint32_t>(purpose_ >> 32)},
        key_);
  }
  // Returns four independent values of N(0, 1) (Box and Muller 1958).
  std::array<double, 4> normal_block(std::uint64_t i) const;

 private:
  std::uint64_t purpose_;
  PhiloxKey key_;
};

}  // namespace meshwright::exec
