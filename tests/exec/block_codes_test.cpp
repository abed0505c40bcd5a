#include "exec/core/block_codes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <set>
#include <vector>

#include "exec/core/half.h"
#include "tests/catch.h"
#include "tests/exec/reference_codes.h"

using namespace meshwright::tests;

namespace {

std::vector<std::byte> to_blocks(const std::vector<float>& values, Dtype dtype) {
  const auto count = std::ssize(values);
  std::vector<std::byte> blocks(static_cast<std::size_t>(bytes_of(count, dtype)), std::byte{0xEE});
  narrow(values.data(), dtype, count, blocks.data());
  return blocks;
}

std::vector<float> from_blocks(const std::vector<std::byte>& blocks, Dtype dtype,
                               std::size_t count) {
  std::vector<float> values(count);
  widen(blocks.data(), dtype, std::ssize(values), values.data());
  return values;
}

// Returns values over many decades, as moments have. `count` need not be whole blocks.
std::vector<float> moments(Dtype dtype, std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> decade(-9, 3), sign(-1, 1);
  std::vector<float> values(count);
  for (float& value : values) {
    const double magnitude = std::pow(10, decade(random));
    value = static_cast<float>(dtype == Dtype::block8 && sign(random) < 0 ? -magnitude : magnitude);
  }
  return values;
}

float scale_of(const std::vector<std::byte>& blocks, std::size_t block) {
  float scale = 0;
  std::memcpy(&scale, blocks.data() + block * moment_block_bytes + moment_block, sizeof scale);
  return scale;
}

}  // namespace

TEST_CASE("codes of 8 bits cut every decade into equal parts", "[exec][core]") {
  // The three highest decades of 7 bits: 64 parts of (0.1, 1], 32 of (0.01, 0.1], 16.
  CHECK(magnitude_of_code(127, 7) == 1.0);
  CHECK(magnitude_of_code(64, 7) == Approx(0.1 + 0.9 / 64));
  CHECK(magnitude_of_code(63, 7) == Approx(0.1));
  CHECK(magnitude_of_code(32, 7) == Approx(0.01 + 0.09 / 32));
  CHECK(magnitude_of_code(1, 7) == Approx(1e-6));
  CHECK(magnitude_of_code(255, 8) == 1.0);
  CHECK(magnitude_of_code(128, 8) == Approx(0.1 + 0.9 / 128));
  CHECK(magnitude_of_code(1, 8) == Approx(1e-7));
  for (const Dtype dtype : {Dtype::block8, Dtype::block8u}) {
    const BlockCodes codes = block_codes(dtype);
    const int positive = dtype == Dtype::block8 ? 128 : 256;
    CHECK(codes.values[0] == 0);
    for (int code = 1; code < positive; ++code) {
      CHECK(codes.values[code] > codes.values[code - 1]);
      if (positive == 128) CHECK(codes.values[128 + code] == -codes.values[code]);
    }
  }
}

TEST_CASE("a block has the scale of its largest number and the nearest codes", "[exec][core]") {
  const Dtype dtype = GENERATE(Dtype::block8, Dtype::block8u);
  for (const std::size_t count : {1, 255, 256, 257, 1000}) {
    const std::vector<float> values = moments(dtype, count, 3);
    const std::vector<std::byte> blocks = to_blocks(values, dtype);
    const std::vector<float> back = from_blocks(blocks, dtype, count);
    const BlockCodes codes = block_codes(dtype);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t block = i / moment_block, in_block = i % moment_block;
      const auto end = std::min((block + 1) * moment_block, count);
      float largest = 0;
      for (std::size_t j = block * moment_block; j < end; ++j)
        largest = std::max(largest, std::abs(values[j]));
      CHECK(scale_of(blocks, block) == largest);
      const auto code = static_cast<std::uint8_t>(blocks[block * moment_block_bytes + in_block]);
      CHECK(code == reference_code(values[i] / largest, dtype));
      CHECK(back[i] == codes.values[code] * largest);
      if (std::abs(values[i]) == largest) CHECK(back[i] == values[i]);
    }
    for (std::size_t i = count % moment_block; count % moment_block > 0 && i < moment_block; ++i)
      CHECK(blocks[count / moment_block * moment_block_bytes + i] == std::byte{0});
  }
}

TEST_CASE("numbers that were in blocks come back to the same bits", "[exec][core]") {
  const Dtype dtype = GENERATE(Dtype::block8, Dtype::block8u);
  for (unsigned seed = 0; seed < 50; ++seed) {
    const std::vector<std::byte> blocks = to_blocks(moments(dtype, 700, seed), dtype);
    CHECK(to_blocks(from_blocks(blocks, dtype, 700), dtype) == blocks);
  }
}

TEST_CASE("blocks of nothing are nothing, and memory of zeros is such blocks", "[exec][core]") {
  const Dtype dtype = GENERATE(Dtype::block8, Dtype::block8u);
  const std::vector<float> none(300);
  const std::vector<std::byte> zeros(static_cast<std::size_t>(2 * moment_block_bytes));
  CHECK(to_blocks(none, dtype) == zeros);
  CHECK(from_blocks(zeros, dtype, 300) == none);
}

// Optimizers divide by the root of a second moment, so it must not become 0.
TEST_CASE("a value in unsigned 8-bit blocks is 0 only if it was 0 before", "[exec][core]") {
  std::vector<float> values(256, 0.0F);
  values[3] = 1, values[5] = 1e-20F;
  const std::vector<float> back =
      from_blocks(to_blocks(values, Dtype::block8u), Dtype::block8u, 256);
  CHECK(back[5] == Approx(1e-7));
  CHECK(std::count(back.begin(), back.end(), 0.0F) == 254);
  CHECK(from_blocks(to_blocks(values, Dtype::block8), Dtype::block8, 256)[5] == 0);
}
