#include "exec/core/weight_blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "exec/backends/cpu/cpu_backend.h"
#include "exec/core/block_codes.h"
#include "exec/core/half.h"
#include "tests/catch.h"
#include "tests/exec/op_runner.h"
#include "tests/exec/reference_codes.h"

using namespace meshwright::tests;

namespace {

constexpr Dtype types[] = {Dtype::nf4,     Dtype::nf4_double, Dtype::int4_32,
                           Dtype::int4_64, Dtype::int4_128,   Dtype::int4_256};

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

std::vector<float> weights(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 0.02F);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

float rounded_to_bf16(float x) { return reference_value(reference_bfloat16(x)); }

// Returns the number of elements that share the scale of one 4-bit code.
std::size_t run_of(Dtype dtype) {
  const bool is_nf4 = dtype == Dtype::nf4 || dtype == Dtype::nf4_double;
  return static_cast<std::size_t>(dtype_block(is_nf4 ? Dtype::nf4 : dtype).elements);
}

// Returns the nearest of 16 values to x, by looking at all of them. Of two it takes the lower.
float nearest_nf4(double x) {
  float nearest = nf4_values[0];
  for (const float value : nf4_values)
    if (std::abs(value - x) < std::abs(nearest - x)) nearest = value;
  return nearest;
}

// Returns what numbers become in 4 bits, by the definition of the types.
std::vector<float> reference(const std::vector<float>& values, Dtype dtype) {
  const bool is_int4 = dtype != Dtype::nf4 && dtype != Dtype::nf4_double;
  const std::size_t run = run_of(dtype);
  std::vector<float> largest, scales, result;
  for (std::size_t begin = 0; begin < values.size(); begin += run) {
    float most = 0;
    for (std::size_t i = begin; i < std::min(begin + run, values.size()); ++i)
      most = std::max(most, std::abs(values[i]));
    largest.push_back(most);
  }
  scales = largest;
  if (is_int4)
    for (float& scale : scales) scale = rounded_to_bf16(scale / 7);
  if (dtype == Dtype::nf4_double)
    for (std::size_t begin = 0; begin < scales.size(); begin += 256) {
      const std::size_t end = std::min(begin + 256, scales.size());
      const float most = *std::max_element(largest.begin() + std::ptrdiff_t(begin),
                                           largest.begin() + std::ptrdiff_t(end));
      for (std::size_t i = begin; i < end; ++i)
        scales[i] = static_cast<float>(
                        magnitude_of_code(reference_code(largest[i] / most, Dtype::block8u), 8)) *
                    most;
    }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float scale = scales[i / run], most = largest[i / run];
    if (most == 0)
      result.push_back(0);
    else if (is_int4)
      result.push_back(std::clamp(std::nearbyint(values[i] / scale), -7.0F, 7.0F) * scale);
    else
      result.push_back(nearest_nf4(double(values[i] / most)) * scale);
  }
  return result;
}

}  // namespace

TEST_CASE("weights in 4 bits are the nearest values of their block", "[exec][core]") {
  for (const Dtype dtype : types)
    for (const std::size_t count : {1, 63, 64, 65, 640, 16384, 40000}) {
      INFO(static_cast<int>(dtype) << " " << count);
      const std::vector<float> values = weights(count, 5);
      const std::vector<float> back = from_blocks(to_blocks(values, dtype), dtype, count);
      CHECK(back == reference(values, dtype));
    }
}

// These sizes are published: bitsandbytes needs 4.5 bits for each parameter, 4.127 with double
// quantization (Dettmers et al. 2023, section 3). Groups of 128 with 16-bit scales need 4.125.
TEST_CASE("weights in 4 bits take the bytes of their codes and scales", "[exec][core]") {
  CHECK(8 * mean_bytes_of(Dtype::nf4) == 4.5);
  CHECK(8 * mean_bytes_of(Dtype::nf4_double) == Approx(4.127).epsilon(1e-4));
  CHECK(8 * mean_bytes_of(Dtype::int4_128) == 4.125);
  CHECK(bytes_of(std::int64_t{4096} * 4096, Dtype::nf4) == 4096 * 4096 / 2 + 4096 * 4096 / 64 * 4);
  CHECK(bytes_of(std::int64_t{65}, Dtype::nf4) == 2 * 36);
}

TEST_CASE("weights that were in 4 bits come back to the same values", "[exec][core]") {
  for (const Dtype dtype : types)
    for (unsigned seed = 0; seed < 20; ++seed) {
      INFO(static_cast<int>(dtype));
      const std::vector<float> once =
          from_blocks(to_blocks(weights(20000, seed), dtype), dtype, 20000);
      CHECK(from_blocks(to_blocks(once, dtype), dtype, once.size()) == once);
    }
}

TEST_CASE("weights of nothing are nothing in 4 bits, and so is memory of zeros", "[exec][core]") {
  for (const Dtype dtype : types) {
    INFO(static_cast<int>(dtype));
    const std::vector<float> none(300);
    CHECK(from_blocks(to_blocks(none, dtype), dtype, 300) == none);
    const std::vector<std::byte> zeros(
        static_cast<std::size_t>(bytes_of(std::int64_t{300}, dtype)));
    CHECK(from_blocks(zeros, dtype, 300) == none);
  }
}

TEST_CASE("the kernel widens weights as the conversion does, on any number of threads",
          "[exec][kernels]") {
  constexpr std::int64_t rows = 96, columns = 1024;
  for (const Dtype dtype : types)
    for (const Dtype wide : {Dtype::f32, Dtype::bf16, Dtype::f16})
      for (const int threads : {1, 3}) {
        INFO(static_cast<int>(dtype) << " " << static_cast<int>(wide));
        const std::vector<float> values = weights(rows * columns, 9);
        const std::vector<std::byte> blocks = to_blocks(values, dtype);
        std::vector<float> expected = from_blocks(blocks, dtype, values.size());
        std::vector<std::byte> got(values.size() * static_cast<std::size_t>(bytes_of(wide)));
        std::vector<std::byte> stored(got.size());
        narrow(expected.data(), wide, std::ssize(expected), stored.data());
        const auto backend = make_cpu_backend(threads);
        Attributes attributes;
        attributes.storage = wide;
        const TensorType in{Shape{rows, columns}, dtype}, out{Shape{rows, columns}, wide};
        const void* from = blocks.data();
        void* to = got.data();
        REQUIRE(backend->supports(Op::widen_weights, wide));
        CHECK(backend->workspace_bytes({Op::widen_weights, attributes, {&in, 1}, {&out, 1}}) == 0);
        backend->run({Op::widen_weights, attributes, {&in, 1}, {&out, 1}}, {{&from, 1}, {&to, 1}},
                     {});
        CHECK(got == stored);
      }
}
