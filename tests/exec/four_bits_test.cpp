// Tests numbers of 4 bits and NVFP4's scales: conversion against the definition of the format, and
// the CPU backend's results against a calculation of one element at a time.
#include "exec/core/four_bits.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "exec/backends/backend.h"
#include "exec/backends/cpu/cpu_backend.h"
#include "exec/core/eight_bits.h"
#include "models/program/graph/op_table.h"
#include "models/program/graph/quantized.h"
#include "tests/catch.h"
#include "tests/exec/product_sums.h"
#include "tests/exec/reference_codes.h"

using namespace meshwright::tests;

namespace {

std::vector<float> numbers_of_many_sizes(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::vector<float> numbers(count);
  for (float& x : numbers) {
    const double unit = static_cast<double>(generator() >> 11U) * 0x1p-53;
    x = static_cast<float>(std::ldexp(2 * unit - 1, -static_cast<int>(generator() % 8)));
  }
  return numbers;
}

// Returns every number and points between two, with their fp32 neighbours, of either sign.
std::vector<float> edges() {
  std::vector<float> values = {0, 1e-45F, 1e-38F, 5.9999F, 6.5F, 100, 1e38F, INFINITY};
  for (std::uint8_t bits = 0; bits < 7; ++bits) {
    const float low = reference_value_of_4(bits);
    const float high = reference_value_of_4(static_cast<std::uint8_t>(bits + 1));
    for (const float part : {0.0F, 0.25F, 0.5F, 0.75F, 1.0F}) {
      const float x = low + (high - low) * part;
      for (const float near : {x, std::nextafter(x, 0.0F), std::nextafter(x, 10.0F)})
        values.push_back(near);
    }
  }
  const std::size_t positive = values.size();
  for (std::size_t i = 0; i < positive; ++i) values.push_back(-values[i]);
  for (const float x : numbers_of_many_sizes(20000, 3)) values.push_back(x * 7);
  values.push_back(NAN);
  return values;
}

std::uint8_t fast(float x) {
  const float pair[] = {x, 0};
  std::uint8_t bits = 0;
  round_to_4_bits(pair, 2, 1, &bits);
  return bits & 15U;
}

std::uint8_t fast(float x, std::uint32_t random) {
  const float pair[] = {0, x};
  const std::uint32_t bits_of_pair[] = {0, random};
  std::uint8_t bits = 0;
  round_to_4_bits(pair, 2, 1, bits_of_pair, &bits);
  return bits >> 4U;
}

// The bytes of a rounded matrix, which are read one element at a time.
struct InFourBits {
  Shape shape, of_scales;
  std::vector<std::uint8_t> bits, scales;
  float largest = 0;

  std::uint8_t bits_at(std::int64_t r, std::int64_t c) const {
    const std::int64_t i = r * shape[1] + c;
    return bits[static_cast<std::size_t>(i / 2)] >> (i % 2 * 4) & 15U;
  }
  std::uint8_t scale_at(std::int64_t r, std::int64_t c) const {
    const ScaleBlock block = scale_block(shape, of_scales);
    return scales[static_cast<std::size_t>(r / block.rows * of_scales[1] + c / block.columns)];
  }
  double at(std::int64_t r, std::int64_t c) const {
    return static_cast<double>(reference_value_of_4(bits_at(r, c))) *
           static_cast<double>(reference_value(scale_at(r, c), Dtype::e4m3)) /
           static_cast<double>(tensor_factor(largest));
  }
};

struct Matrix {
  Shape shape;
  std::vector<float> values;
  float at(std::int64_t r, std::int64_t c) const {
    return values[static_cast<std::size_t>(r * shape[1] + c)];
  }
};
Matrix random_matrix(std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  return {{rows, columns}, numbers_of_many_sizes(static_cast<std::size_t>(rows * columns), seed)};
}
Matrix transposed(const Matrix& x) {
  Matrix turned{{x.shape[1], x.shape[0]}, std::vector<float>(x.values.size())};
  for (std::int64_t r = 0; r < turned.shape[0]; ++r)
    for (std::int64_t c = 0; c < turned.shape[1]; ++c)
      turned.values[static_cast<std::size_t>(r * turned.shape[1] + c)] = x.at(c, r);
  return turned;
}
Matrix transformed(Matrix x, std::uint64_t key) {
  for (std::size_t i = 0; i < x.values.size(); i += 16)
    hadamard_16(x.values.data() + i, hadamard_signs(key));
  return x;
}
float largest_of_all(const Matrix& x) {
  float largest = 0;
  for (const float each : x.values) largest = std::max(largest, std::fabs(each));
  return largest;
}

enum class What { activation, weight, gradient };
Attributes attributes_of(What what) {
  Attributes a;
  a.made = Dtype::e2m1;
  a.scale_rows = what == What::weight ? 16 : 1;
  a.scale_columns = 16;
  a.with_transposed = true;
  if (what != What::weight) a.hadamard_key = 0x1234567;
  if (what == What::gradient) a.rounding_key = 99;
  a.sequence_length = 8;
  return a;
}

// Quantizes like Programs do, which compute the largest elements first.
std::vector<InFourBits> quantize(Backend& backend, const Matrix& x, const Attributes& a,
                                 std::int64_t first_sequence = 0, const float* whole = nullptr) {
  const TensorType one{Shape{1}, Dtype::f32};
  std::vector<TensorType> in = {{x.shape, Dtype::f32}}, out;
  std::vector<const void*> from = {x.values.data()};
  float largest[2] = {};
  Attributes of_largest;
  of_largest.hadamard_key = a.hadamard_key;
  of_largest.matrices = a.matrices;
  info(Op::amax).infer(of_largest, in, out);
  REQUIRE(out.size() == (a.hadamard_key != 0 ? 2 : 1));
  std::vector<void*> to = {&largest[0], &largest[1]};
  to.resize(out.size());
  backend.run({Op::amax, of_largest, in, out}, {from, to}, {});
  if (whole != nullptr) largest[0] = largest[1] = *whole;
  for (std::size_t i = 0; i < out.size(); ++i) {
    in.push_back(one);
    from.push_back(&largest[i]);
  }
  out.clear();
  info(Op::quantize).infer(a, in, out);
  std::vector<InFourBits> made(out.size() / 2);
  to.clear();
  for (std::size_t i = 0; i < made.size(); ++i) {
    CHECK(out[2 * i].bytes() * 2 == out[2 * i].shape.elements());
    made[i].shape = out[2 * i].shape, made[i].of_scales = out[2 * i + 1].shape;
    made[i].bits.resize(static_cast<std::size_t>(out[2 * i].bytes()));
    made[i].scales.resize(static_cast<std::size_t>(out[2 * i + 1].bytes()));
    made[i].largest = largest[i > 0 && a.hadamard_key != 0 ? 1 : 0];
    to.push_back(made[i].bits.data());
    to.push_back(made[i].scales.data());
  }
  OpContext context;
  context.first_sequence = first_sequence;
  backend.run({Op::quantize, a, in, out}, {from, to}, context);
  return made;
}

// Counts the elements that differ from a rounding of one element at a time, to nearest or (at
// random) to a neighbour.
int wrong_elements(const InFourBits& made, const Matrix& exact, std::int64_t rows_of_block,
                   bool at_random) {
  int wrong = 0;
  const float factor = tensor_factor(largest_of_all(exact));
  for (std::int64_t r = 0; r < exact.shape[0]; ++r)
    for (std::int64_t c = 0; c < exact.shape[1]; ++c) {
      float largest = 0;
      for (std::int64_t i = 0; i < rows_of_block; ++i)
        for (std::int64_t j = 0; j < 16; ++j)
          largest = std::max(
              largest, std::fabs(exact.at(r / rows_of_block * rows_of_block + i, c / 16 * 16 + j)));
      const std::uint8_t scale = reference_8_bits(largest / 6 * factor, Dtype::e4m3);
      wrong += made.scale_at(r, c) != scale;
      const float x = exact.at(r, c) * block_factor(scale, factor);
      const std::uint8_t bits = made.bits_at(r, c);
      if (at_random)
        wrong += bits != reference_4_bits(x, 0) && bits != reference_4_bits(x, 0xFFFFFFFF);
      else
        wrong += bits != reference_4_bits(x);
    }
  return wrong;
}

std::vector<float> multiply(Backend& backend, Op op, const Attributes& given,
                            const InFourBits& first, const InFourBits& second, const Shape& result,
                            const float* bias = nullptr) {
  Attributes a = given;
  a.made = Dtype::f32;
  const TensorType one{Shape{1}, Dtype::f32};
  std::vector<TensorType> in = {{first.shape, Dtype::e2m1},
                                {second.shape, Dtype::e2m1},
                                {first.of_scales, Dtype::e4m3},
                                {second.of_scales, Dtype::e4m3},
                                one,
                                one};
  std::vector<const void*> from = {first.bits.data(),    second.bits.data(), first.scales.data(),
                                   second.scales.data(), &first.largest,     &second.largest};
  if (bias != nullptr) {
    in.push_back({Shape{result[1]}, Dtype::f32});
    from.push_back(bias);
  }
  const TensorType out{result, Dtype::f32};
  std::vector<float> product(static_cast<std::size_t>(result.elements()), 0);
  void* to = product.data();
  const OpCall call{op, a, in, {&out, 1}};
  std::vector<double> scratch(static_cast<std::size_t>(backend.workspace_bytes(call) / 8 + 1));
  OpContext context;
  context.workspace = scratch.data();
  backend.run(call, {from, {&to, 1}}, context);
  return product;
}

}  // namespace

TEST_CASE("all 256 pairs of numbers of 4 bits convert exactly, there and back", "[exec][half]") {
  const float magnitudes[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
  for (std::uint8_t bits = 0; bits < 16; ++bits) {
    CHECK(std::fabs(reference_value_of_4(bits)) == magnitudes[bits & 7U]);
    CHECK(std::signbit(reference_value_of_4(bits)) == (bits > 7));
  }
  for (int pair = 0; pair < 256; ++pair) {
    const auto bits = static_cast<std::uint8_t>(pair);
    float wide[2];
    widen_4_bits(&bits, 2, 1, wide);
    CHECK(wide[0] == reference_value_of_4(bits & 15U));
    CHECK(wide[1] == reference_value_of_4(bits >> 4U));
    std::uint8_t back = 0;
    round_to_4_bits(wide, 2, 1, &back);
    CHECK(back == bits);
    for (const std::uint32_t random : {0U, 0xFFFFFFFFU}) {  // exact numbers stay as they are
      const std::uint32_t of_pair[] = {random, random};
      round_to_4_bits(wide, 2, 1, of_pair, &back);
      CHECK(back == bits);
    }
  }
}

TEST_CASE("every scale of NVFP4 times every number of 4 bits is exact", "[exec][half]") {
  int wrong = 0;
  for (int scale = 0; scale < 256; ++scale) {
    const auto of_block = static_cast<std::uint8_t>(scale);
    const float value = reference_value(of_block, Dtype::e4m3);
    if (std::isnan(value)) continue;
    for (int pair = 0; pair < 256; ++pair) {
      const auto bits = static_cast<std::uint8_t>(pair);
      float wide[2];
      widen_4_bits(&bits, 2, value, wide);
      for (const int i : {0, 1})
        wrong += static_cast<double>(wide[i]) !=
                 static_cast<double>(value) *
                     static_cast<double>(reference_value_of_4(bits >> (4 * i) & 15U));
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("fp32 rounds to the nearest number of 4 bits, ties to even", "[exec][half]") {
  int wrong = 0;
  for (const float x : edges()) wrong += fast(x) != reference_4_bits(x);
  CHECK(wrong == 0);
  CHECK(reference_value_of_4(fast(2.5F)) == 2);
  CHECK(reference_value_of_4(fast(3.5F)) == 4);
  CHECK(reference_value_of_4(fast(5)) == 4);
  CHECK(reference_value_of_4(fast(-1000)) == -6);
}

TEST_CASE("at random fp32 rounds to its neighbours, and in the mean to itself", "[exec][half]") {
  int wrong = 0;
  std::mt19937 generator(5);
  for (const float x : edges())
    for (int i = 0; i < 4; ++i) {
      const auto random = static_cast<std::uint32_t>(generator());
      wrong += fast(x, random) != reference_4_bits(x, random);
    }
  CHECK(wrong == 0);
  for (const float x : {0.1F, 0.3F, 1.2F, 2.9F, 4.5F, -5.7F}) {
    double sum = 0;
    const int draws = 1 << 16;
    for (int i = 0; i < draws; ++i)  // random numbers, evenly spaced
      sum +=
          static_cast<double>(reference_value_of_4(fast(x, static_cast<std::uint32_t>(i) << 16U)));
    CHECK(sum / draws == Approx(static_cast<double>(x)).margin(2.0 / draws));
  }
}

TEST_CASE("scales of NVFP4 are as its definition says", "[exec][half]") {
  CHECK(tensor_factor(0) == 1);
  CHECK(tensor_factor(2688) == 1);
  CHECK(tensor_factor(21) == 128);
  CHECK(std::isfinite(tensor_factor(1e-45F)));
  CHECK(std::isnan(tensor_factor(NAN)));
  // The block with the tensor's largest element has the largest scale, and its 6 stands for that
  // element.
  const float factor = tensor_factor(21);
  CHECK(block_scale(21, factor) == 0x7e);
  CHECK(21 * block_factor(0x7e, factor) == Approx(6));
  CHECK(block_scale(0, factor) == 0);
  CHECK(std::isfinite(block_factor(0, factor)));
  for (const float largest : {21.0F, 20.0F, 3.7F, 0.02F}) {
    const std::uint8_t scale = block_scale(largest, factor);
    CHECK(scale == reference_8_bits(largest / 6 * factor, Dtype::e4m3));
    const float value = reference_value(scale, Dtype::e4m3);
    CHECK(block_factor(scale, factor) == Approx(factor / value));
  }
}

TEST_CASE("the transform of 16 is orthogonal, and what its matrix makes", "[exec][half]") {
  const std::uint32_t signs = hadamard_signs(77);
  CHECK(signs != hadamard_signs(78));
  const std::vector<float> x = numbers_of_many_sizes(16, 1), y = numbers_of_many_sizes(16, 2);
  std::vector<float> hx = x, hy = y;
  hadamard_16(hx.data(), signs);
  hadamard_16(hy.data(), signs);
  double before = 0, after = 0;
  for (std::size_t i = 0; i < 16; ++i) {
    before += static_cast<double>(x[i]) * static_cast<double>(y[i]);
    after += static_cast<double>(hx[i]) * static_cast<double>(hy[i]);
    double sum = 0;  // row i: sign by the parity of i & j
    for (std::size_t j = 0; j < 16; ++j) {
      const bool odd = std::popcount(i & j) % 2 != 0;
      const bool turned = (signs >> j & 1U) != 0;
      sum += static_cast<double>(x[j]) * (odd != turned ? -0.25 : 0.25);
    }
    CHECK(static_cast<double>(hx[i]) == Approx(sum).margin(1e-6));
  }
  CHECK(after == Approx(before).margin(1e-6));
}

TEST_CASE("tensors in 4 bits are those that one element at a time makes", "[exec][kernels]") {
  const auto backend = make_cpu_backend(2);
  const Matrix x = random_matrix(48, 80, 11);
  for (const What what : {What::activation, What::weight, What::gradient}) {
    const Attributes a = attributes_of(what);
    const std::vector<InFourBits> made = quantize(*backend, x, a);
    REQUIRE(made.size() == 2);
    Matrix turned = transposed(x);
    if (a.hadamard_key != 0) turned = transformed(turned, a.hadamard_key);
    CHECK(made[0].largest == largest_of_all(x));
    CHECK(made[1].largest == largest_of_all(turned));
    const bool at_random = what == What::gradient;
    CHECK(wrong_elements(made[0], x, a.scale_rows, at_random) == 0);
    CHECK(wrong_elements(made[1], turned, a.scale_rows, at_random) == 0);
    if (what != What::weight) continue;
    int differing = 0;  // blocks are square: both copies agree
    for (std::int64_t r = 0; r < 48; ++r)
      for (std::int64_t c = 0; c < 80; ++c) differing += made[0].at(r, c) != made[1].at(c, r);
    CHECK(differing == 0);
  }
}

TEST_CASE("random rounding is of the element's place alone, and right in the mean",
          "[exec][kernels]") {
  const auto one = make_cpu_backend(1), three = make_cpu_backend(3);
  const Attributes a = attributes_of(What::gradient);
  const Matrix x = random_matrix(64, 64, 5);
  const auto all = quantize(*one, x, a), again = quantize(*three, x, a);
  for (const std::size_t i : {0U, 1U}) {
    CHECK(all[i].bits == again[i].bits);
    CHECK(all[i].scales == again[i].scales);
  }
  // Sequences have 8 rows. The last four sequences are also quantized as a micro-batch of their
  // own, with the same largest element.
  Matrix last{{32, 64}, {x.values.begin() + 32 * 64, x.values.end()}};
  const float largest = all[0].largest;
  const auto whole = quantize(*one, x, a, 0, &largest), half = quantize(*one, last, a, 4, &largest);
  CHECK(std::equal(half[0].bits.begin(), half[0].bits.end(), whole[0].bits.begin() + 32 * 32));
  int differing = 0;
  for (std::int64_t r = 0; r < 64; ++r)
    for (std::int64_t c = 0; c < 32; ++c)
      differing += half[1].bits_at(r, c) != whole[1].bits_at(r, c + 32);
  CHECK(differing == 0);
  CHECK(quantize(*one, last, a, 5, &largest)[0].bits != half[0].bits);
  Attributes other = a;
  other.rounding_key = 98;
  CHECK(quantize(*one, x, other)[0].bits != all[0].bits);
  // All elements are constant except those that keep the scale: 0.3 of a step above 1.
  Matrix same{{256, 64}, std::vector<float>(256 * 64, 1.15F)};
  for (std::size_t i = 0; i < same.values.size(); i += 16) same.values[i] = 6;
  Attributes plain = a;
  plain.hadamard_key = 0;
  const auto made = quantize(*one, same, plain);
  double sum = 0, sum_turned = 0;
  int counted = 0;
  for (std::int64_t r = 0; r < 256; ++r)
    for (std::int64_t c = 0; c < 64; ++c) {
      if (c % 16 == 0) continue;
      sum += made[0].at(r, c);
      sum_turned += made[1].at(c, r);
      ++counted;
    }
  // The standard deviation is sqrt(0.3 0.7) 0.5 / sqrt(15360) = 0.0018. Most blocks of the
  // transposed copy have no 6.
  CHECK(sum / counted == Approx(1.15).margin(0.008));
  CHECK(sum_turned / counted == Approx(1.15).margin(0.02));
}

TEST_CASE("a NaN or an infinity makes every product of a tensor in 4 bits NaN", "[exec][kernels]") {
  const auto backend = make_cpu_backend(1);
  const auto w = quantize(*backend, random_matrix(16, 32, 2), attributes_of(What::weight));
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    Matrix x = random_matrix(16, 32, 1);
    x.values[77] = bad;
    const auto made = quantize(*backend, x, attributes_of(What::activation));
    const auto product = multiply(*backend, Op::linear, {}, made[0], w[0], {16, 16});
    CHECK(std::ranges::none_of(product, [](float y) { return std::isfinite(y); }));
  }
}

TEST_CASE("products of 4-bit factors are those of what they stand for", "[exec][kernels]") {
  const auto backend = make_cpu_backend(2);
  const std::int64_t rows = 64, in = 96, out = 48;
  const auto qx = quantize(*backend, random_matrix(rows, in, 1), attributes_of(What::activation));
  const auto qdy = quantize(*backend, random_matrix(rows, out, 2), attributes_of(What::gradient));
  for (const bool in_out : {false, true}) {
    const Matrix w = in_out ? random_matrix(in, out, 3) : random_matrix(out, in, 3);
    const auto qw = quantize(*backend, w, attributes_of(What::weight));
    const auto weight = [&](std::int64_t i, std::int64_t o) {
      return in_out ? qw[0].at(i, o) : qw[0].at(o, i);
    };
    Attributes product;
    product.weight_in_out = in_out;
    const std::vector<float> bias = numbers_of_many_sizes(static_cast<std::size_t>(out), 9);
    check_sums(multiply(*backend, Op::linear, product, qx[0], qw[0], {rows, out}, bias.data()),
               rows, out, in + 1, [&](std::int64_t r, std::int64_t c, std::int64_t i) {
                 return i == in ? static_cast<double>(bias[static_cast<std::size_t>(c)])
                                : qx[0].at(r, i) * weight(i, c);
               });
    check_sums(multiply(*backend, Op::linear_grad_input, product, qdy[0], qw[0], {rows, in}), rows,
               in, out, [&](std::int64_t r, std::int64_t c, std::int64_t i) {
                 return qdy[0].at(r, i) * weight(c, i);
               });
    product.factors_transposed = true;
    const Shape sum = in_out ? Shape{in, out} : Shape{out, in};
    check_sums(multiply(*backend, Op::linear_grad_weight, product, qx[1], qdy[1], sum), sum[0],
               sum[1], rows, [&](std::int64_t r, std::int64_t c, std::int64_t i) {
                 return in_out ? qx[1].at(r, i) * qdy[1].at(c, i)
                               : qdy[1].at(r, i) * qx[1].at(c, i);
               });
  }
}

// Both factors went through the transform, which cancels in their product, so the product is near
// the exact one.
TEST_CASE("gradients of weights in 4 bits are near those of what was rounded", "[exec][kernels]") {
  const auto backend = make_cpu_backend(2);
  const std::int64_t rows = 512, in = 32, out = 48;
  const Matrix x = random_matrix(rows, in, 1), dy = random_matrix(rows, out, 2);
  const auto qx = quantize(*backend, x, attributes_of(What::activation)),
             qdy = quantize(*backend, dy, attributes_of(What::gradient));
  Attributes product;
  product.factors_transposed = true;
  const auto found = multiply(*backend, Op::linear_grad_weight, product, qx[1], qdy[1], {out, in});
  double apart = 0, size = 0;
  for (std::int64_t o = 0; o < out; ++o)
    for (std::int64_t i = 0; i < in; ++i) {
      double exact = 0;
      for (std::int64_t r = 0; r < rows; ++r)
        exact += static_cast<double>(dy.at(r, o)) * static_cast<double>(x.at(r, i));
      apart +=
          std::pow(static_cast<double>(found[static_cast<std::size_t>(o * in + i)]) - exact, 2);
      size += exact * exact;
    }
  // A rounding at random is off by up to a step, 0.4 2 u = 0.2 as a root mean square with e2m1's
  // unit roundoff u = 2^-2. A rounding to nearest is off by half of that. Together this is 0.23 of
  // each term.
  CHECK(std::sqrt(apart / size) < 0.23);
}

TEST_CASE("experts' products of 4 bits are those of what they stand for", "[exec][kernels]") {
  const auto backend = make_cpu_backend(2);
  const std::int64_t experts = 2, groups = 4, slots = 32, in = 64, out = 96;
  Attributes of_rows = attributes_of(What::activation), of_weights = attributes_of(What::weight);
  of_rows.matrices = static_cast<int>(groups);
  of_weights.matrices = static_cast<int>(experts);
  const auto qx = quantize(*backend, random_matrix(groups * slots, in, 1), of_rows);
  auto qw = quantize(*backend, random_matrix(experts * out, in, 3), of_weights);
  of_rows.rounding_key = 5;
  const auto qdy = quantize(*backend, random_matrix(groups * slots, out, 2), of_rows);
  const InFourBits w = qw[0];
  qw[0].shape = Shape{experts, out, in};
  Attributes product;
  product.experts = static_cast<int>(groups);
  product.micro_batch = 1;
  product.expert_capacity = static_cast<int>(slots);
  check_sums(multiply(*backend, Op::expert_linear, product, qx[0], qw[0], {groups * slots, out}),
             groups * slots, out, in, [&](std::int64_t r, std::int64_t c, std::int64_t i) {
               return qx[0].at(r, i) * w.at(r / slots % experts * out + c, i);
             });
  product.factors_transposed = true;
  check_sums(
      multiply(*backend, Op::expert_linear_grad_weight, product, qx[1], qdy[1], {experts, out, in}),
      experts * out, in, groups / experts * slots,
      [&](std::int64_t r, std::int64_t c, std::int64_t i) {
        const std::int64_t group = i / slots * experts + r / out;
        return qdy[1].at(group * out + r % out, i % slots) * qx[1].at(group * in + c, i % slots);
      });
}
