// Tests numbers of 8 bits: their conversion against the definition of the formats, and the CPU
// backend's operations on them against a calculation in double.
#include "exec/core/eight_bits.h"

#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "exec/backends/backend.h"
#include "exec/backends/cpu/cpu_backend.h"
#include "models/program/graph/op_table.h"
#include "models/program/graph/quantized.h"
#include "tests/catch.h"
#include "tests/exec/product_sums.h"
#include "tests/exec/reference_codes.h"

using namespace meshwright::tests;

namespace {

constexpr Dtype formats[] = {Dtype::e4m3, Dtype::e5m2};

std::uint8_t rounded(float x, Dtype dtype) {
  std::uint8_t bits = 0;
  round_to_8_bits(&x, dtype, 1, 1, &bits);
  return bits;
}

bool same(std::uint8_t bits, std::uint8_t expected, Dtype dtype) {
  return bits == expected ||
         (std::isnan(reference_value(bits, dtype)) && std::isnan(reference_value(expected, dtype)));
}

std::vector<float> random_numbers(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::vector<float> numbers(count);
  for (float& x : numbers) {  // of many magnitudes, like gradients
    const double unit = static_cast<double>(generator() >> 11U) * 0x1p-53;
    x = static_cast<float>(std::ldexp(2 * unit - 1, -static_cast<int>(generator() % 12)));
  }
  return numbers;
}

struct Matrix {
  Shape shape;
  std::vector<float> values;
  float at(std::int64_t r, std::int64_t c) const {
    return values[static_cast<std::size_t>(r * shape[1] + c)];
  }
};

Matrix random_matrix(std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  return {{rows, columns}, random_numbers(static_cast<std::size_t>(rows * columns), seed)};
}

struct Quantized {
  TensorType type, scales_type;
  std::vector<std::uint8_t> bits;
  std::vector<float> scales;
  // Returns the value of an element by the definition of the formats.
  double at(std::int64_t r, std::int64_t c) const {
    const auto i = static_cast<std::size_t>(r * type.shape[1] + c);
    return static_cast<double>(reference_value(bits[i], type.dtype)) * scale_at(r, c);
  }
  double scale_at(std::int64_t r, std::int64_t c) const {
    const ScaleBlock block = scale_block(type.shape, scales_type.shape);
    return static_cast<double>(scales[static_cast<std::size_t>(
        r / block.rows * scales_type.shape[1] + c / block.columns)]);
  }
};

Attributes tensorwise(Dtype dtype) {
  Attributes a;
  a.made = dtype;
  return a;
}
Attributes in_blocks(Dtype dtype, std::int64_t rows, std::int64_t columns) {
  Attributes a = tensorwise(dtype);
  a.scale_rows = rows, a.scale_columns = columns;
  a.scales_are_powers = true;
  return a;
}

// Quantizes like Programs do. If there is one scale, the largest element is computed first.
std::vector<Quantized> quantize(Backend& backend, const Matrix& x, const Attributes& a) {
  std::vector<TensorType> in = {{x.shape, Dtype::f32}}, out;
  std::vector<const void*> from = {x.values.data()};
  float largest = 0;
  if (a.scale_columns == 0) {
    const TensorType one{Shape{1}, Dtype::f32};
    void* to = &largest;
    backend.run({Op::amax, {}, in, {&one, 1}}, {from, {&to, 1}}, {});
    in.push_back(one);
    from.push_back(&largest);
  }
  info(Op::quantize).infer(a, in, out);
  std::vector<Quantized> made(out.size() / 2);
  std::vector<void*> to;
  for (std::size_t i = 0; i < made.size(); ++i) {
    made[i].type = out[2 * i], made[i].scales_type = out[2 * i + 1];
    made[i].bits.resize(static_cast<std::size_t>(out[2 * i].shape.elements()));
    made[i].scales.resize(static_cast<std::size_t>(out[2 * i + 1].shape.elements()));
    to.push_back(made[i].bits.data());
    to.push_back(made[i].scales.data());
  }
  backend.run({Op::quantize, a, in, out}, {from, to}, {});
  return made;
}

// Returns the product of 8-bit matrices in f32. A gradient of a weight is added to zeros.
std::vector<float> multiply(Backend& backend, Op op, Attributes a, const Quantized& first,
                            const Quantized& second, const Shape& result,
                            const float* bias = nullptr) {
  a.made = Dtype::f32;
  std::vector<TensorType> in = {first.type, second.type, first.scales_type, second.scales_type};
  std::vector<const void*> from = {first.bits.data(), second.bits.data(), first.scales.data(),
                                   second.scales.data()};
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

TEST_CASE("all 256 numbers of both formats convert exactly, there and back", "[exec][half]") {
  for (const Dtype dtype : formats)
    for (int i = 0; i < 256; ++i) {
      const auto bits = static_cast<std::uint8_t>(i);
      const float expected = reference_value(bits, dtype);
      float wide = 0;
      widen_8_bits(&bits, dtype, 1, 1, &wide);
      CHECK((std::isnan(wide) ? std::isnan(expected) : wide == expected));
      // Infinity becomes the largest number.
      const std::uint8_t back = std::isinf(wide) ? static_cast<std::uint8_t>(bits - 1) : bits;
      CHECK(same(rounded(wide, dtype), back, dtype));
    }
  CHECK(reference_value(0x7e, Dtype::e4m3) == 448);
  CHECK(std::isnan(reference_value(0x7f, Dtype::e4m3)));
  CHECK(reference_value(1, Dtype::e4m3) == 0x1p-9F);
  CHECK(reference_value(0x7b, Dtype::e5m2) == 57344);
  CHECK(std::isinf(reference_value(0x7c, Dtype::e5m2)));
  CHECK(reference_value(1, Dtype::e5m2) == 0x1p-16F);
}

TEST_CASE("fp32 rounds to the nearest number of 8 bits, ties to even", "[exec][half]") {
  for (const Dtype dtype : formats) {
    std::vector<float> values = {INFINITY, NAN,    1e38F,  1e-38F,   1e-45F,   0.0F,
                                 449.0F,   464.0F, 480.0F, 57345.0F, 61440.0F, 65536.0F};
    for (int bits = 0; bits < 0x7f; ++bits) {
      const float low = reference_value(static_cast<std::uint8_t>(bits), dtype);
      const float high = reference_value(static_cast<std::uint8_t>(bits + 1), dtype);
      if (!std::isfinite(high)) break;
      for (const float part : {0.25F, 0.5F, 0.75F}) {
        const float between = low + (high - low) * part;
        for (const float x : {between, std::nextafter(between, low), std::nextafter(between, high)})
          values.push_back(x);
      }
    }
    for (const float x : random_numbers(20000, 3)) values.push_back(x * largest_of(dtype) * 1.1F);
    std::mt19937 generator(7);
    for (int i = 0; i < 20000; ++i)
      values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(generator())));
    int wrong = 0;
    for (const float value : values)
      for (const float x : {value, -value})
        wrong += !same(rounded(x, dtype), reference_8_bits(x, dtype), dtype);
    CHECK(wrong == 0);
  }
  CHECK(reference_8_bits(17, Dtype::e4m3) == reference_8_bits(16, Dtype::e4m3));  // steps of 2
  CHECK(reference_8_bits(19, Dtype::e4m3) == reference_8_bits(20, Dtype::e4m3));
}

TEST_CASE("the largest element becomes the largest number, or the next power of two below",
          "[exec][half]") {
  CHECK(factor_to_8_bits(0, Dtype::e4m3, false) == 1);
  CHECK(factor_to_8_bits(7, Dtype::e4m3, false) == 64);
  CHECK(factor_to_8_bits(7, Dtype::e4m3, true) == 64);
  CHECK(factor_to_8_bits(7.01F, Dtype::e4m3, true) == 32);  // 64 would be too much
  CHECK(factor_to_8_bits(1e-45F, Dtype::e5m2, false) * 0 == 0);
  CHECK(std::isnan(factor_to_8_bits(NAN, Dtype::e4m3, true)));
  CHECK(std::isnan(factor_to_8_bits(INFINITY, Dtype::e4m3, true) * INFINITY));
}

TEST_CASE("quantized numbers times their scales are within half a step", "[exec][kernels]") {
  const auto backend = make_cpu_backend(2);
  const Matrix x = random_matrix(256, 384, 11);
  for (Attributes a :
       {tensorwise(Dtype::e4m3), tensorwise(Dtype::e5m2), in_blocks(Dtype::e4m3, 1, 128),
        in_blocks(Dtype::e4m3, 128, 128), in_blocks(Dtype::e4m3, 1, 32)}) {
    a.with_transposed = true;
    const std::vector<Quantized> made = quantize(*backend, x, a);
    REQUIRE(made.size() == 2);
    const double half_step = a.made == Dtype::e4m3 ? 0x1p-4 : 0x1p-3;
    // An element too far below its block's largest number for the exponent range is off by up to
    // half of the least step.
    const double least = (a.made == Dtype::e4m3 ? 0x1p-10 : 0x1p-17);
    int wrong = 0;
    for (std::int64_t r = 0; r < 256; ++r)
      for (std::int64_t c = 0; c < 384; ++c) {
        const double exact = static_cast<double>(x.at(r, c));
        const auto near = [&](const Quantized& q, std::int64_t row, std::int64_t column) {
          const ScaleBlock block = scale_block(q.type.shape, q.scales_type.shape);
          const auto scale = static_cast<double>(q.scales[static_cast<std::size_t>(
              row / block.rows * q.scales_type.shape[1] + column / block.columns)]);
          const double bound = std::max(half_step * std::fabs(exact), least * scale) * (1 + 1e-6);
          return std::fabs(q.at(row, column) - exact) <= bound;
        };
        wrong += !near(made[0], r, c) || !near(made[1], c, r);
      }
    CHECK(wrong == 0);
  }
}

TEST_CASE("a tensor in 8 bits does not depend on the number of threads", "[exec][kernels]") {
  const auto one = make_cpu_backend(1), three = make_cpu_backend(3);
  const Matrix x = random_matrix(512, 256, 5);
  for (const Attributes& a : {tensorwise(Dtype::e4m3), in_blocks(Dtype::e4m3, 128, 128)}) {
    const std::vector<Quantized> first = quantize(*one, x, a), second = quantize(*three, x, a);
    CHECK(first[0].bits == second[0].bits);
    CHECK(first[0].scales == second[0].scales);
  }
}

TEST_CASE("a NaN or an infinity in a tensor makes all of it NaN", "[exec][kernels]") {
  const auto backend = make_cpu_backend(1);
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    Matrix x = random_matrix(16, 32, 1);
    x.values[77] = bad;
    const Quantized made = quantize(*backend, x, tensorwise(Dtype::e4m3))[0];
    int finite = 0;
    for (std::int64_t r = 0; r < 16; ++r)
      for (std::int64_t c = 0; c < 32; ++c) finite += std::isfinite(made.at(r, c));
    CHECK(finite == 0);
  }
}

TEST_CASE("products of 8-bit factors are those of what they stand for", "[exec][kernels]") {
  const auto backend = make_cpu_backend(2);
  const std::int64_t rows = 256, in = 384, out = 128;
  const Matrix x = random_matrix(rows, in, 1), dy = random_matrix(rows, out, 2);
  for (const bool in_out : {false, true})
    for (Attributes a : {tensorwise(Dtype::e4m3), in_blocks(Dtype::e4m3, 1, 32)}) {
      const Matrix w = in_out ? random_matrix(in, out, 3) : random_matrix(out, in, 3);
      a.with_transposed = true;
      Attributes of_gradient = a;
      if (a.scale_columns == 0) of_gradient.made = Dtype::e5m2;
      const auto qx = quantize(*backend, x, a), qw = quantize(*backend, w, a),
                 qdy = quantize(*backend, dy, of_gradient);
      const auto weight = [&](std::int64_t i, std::int64_t o) {
        return in_out ? qw[0].at(i, o) : qw[0].at(o, i);
      };
      Attributes product;
      product.weight_in_out = in_out;
      const std::vector<float> bias = random_numbers(static_cast<std::size_t>(out), 9);
      check_sums(multiply(*backend, Op::linear, product, qx[0], qw[0], {rows, out}, bias.data()),
                 rows, out, in + 1, [&](std::int64_t r, std::int64_t c, std::int64_t i) {
                   return i == in ? static_cast<double>(bias[static_cast<std::size_t>(c)])
                                  : qx[0].at(r, i) * weight(i, c);
                 });
      check_sums(multiply(*backend, Op::linear_grad_input, product, qdy[0], qw[0], {rows, in}),
                 rows, in, out, [&](std::int64_t r, std::int64_t c, std::int64_t i) {
                   return qdy[0].at(r, i) * weight(c, i);
                 });
      const Shape sum = in_out ? Shape{in, out} : Shape{out, in};
      for (const bool transposed : {false, true}) {
        product.factors_transposed = transposed;
        const std::size_t which = transposed ? 1 : 0;
        const auto of = [&](const std::vector<Quantized>& q, std::int64_t r, std::int64_t c) {
          return transposed ? q[1].at(c, r) : q[0].at(r, c);
        };
        check_sums(multiply(*backend, Op::linear_grad_weight, product, qx[which], qdy[which], sum),
                   sum[0], sum[1], rows, [&](std::int64_t r, std::int64_t c, std::int64_t i) {
                     return in_out ? of(qx, i, r) * of(qdy, i, c) : of(qdy, i, r) * of(qx, i, c);
                   });
      }
    }
}

TEST_CASE("a matrix of any type is transposed", "[exec][kernels]") {
  const auto backend = make_cpu_backend(2);
  for (const Dtype dtype : {Dtype::e4m3, Dtype::bf16, Dtype::f32}) {
    const auto bytes = static_cast<std::size_t>(bytes_of(dtype));
    const std::int64_t rows = 19, columns = 37;
    std::vector<std::uint8_t> from(static_cast<std::size_t>(rows * columns) * bytes),
        to(from.size());
    std::mt19937 generator(1);
    for (std::uint8_t& byte : from) byte = static_cast<std::uint8_t>(generator());
    const TensorType in{Shape{rows, columns}, dtype}, out{Shape{columns, rows}, dtype};
    const void* source = from.data();
    void* target = to.data();
    backend->run({Op::transpose, {}, {&in, 1}, {&out, 1}}, {{&source, 1}, {&target, 1}}, {});
    int wrong = 0;
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < columns; ++c)
        for (std::size_t b = 0; b < bytes; ++b)
          wrong += from[static_cast<std::size_t>(r * columns + c) * bytes + b] !=
                   to[static_cast<std::size_t>(c * rows + r) * bytes + b];
    CHECK(wrong == 0);
  }
}

TEST_CASE("matrices one below the other are transposed each by itself", "[exec][kernels]") {
  const auto backend = make_cpu_backend(2);
  const std::int64_t count = 3, rows = 32, columns = 64;
  const Matrix all = random_matrix(count * rows, columns, 4);
  for (Attributes a : {tensorwise(Dtype::e4m3), in_blocks(Dtype::e4m3, 1, 32)}) {
    a.with_transposed = true;
    a.matrices = static_cast<int>(count);
    const std::vector<Quantized> made = quantize(*backend, all, a);
    REQUIRE(made[1].type.shape == Shape{count * columns, rows});
    int wrong = 0;
    for (std::int64_t i = 0; i < count; ++i)
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < columns; ++c) {
          const double exact = static_cast<double>(all.at(i * rows + r, c));
          // The bound is half of the distance between two numbers of e4m3, which have 3 bits after
          // the first, and steps of 2^-9 below the normal numbers.
          const double bound =
              std::max(0x1p-4 * std::fabs(exact), 0x1p-10 * made[1].scale_at(i * columns + c, r));
          wrong += std::fabs(made[1].at(i * columns + c, r) - exact) > bound * (1 + 1e-6);
        }
    CHECK(wrong == 0);
    Attributes again;
    again.matrices = a.matrices;
    std::vector<std::uint8_t> turned(made[0].bits.size());
    const void* from = made[0].bits.data();
    void* to = turned.data();
    backend->run({Op::transpose, again, {&made[0].type, 1}, {&made[1].type, 1}},
                 {{&from, 1}, {&to, 1}}, {});
    if (a.scale_columns == 0) CHECK(turned == made[1].bits);
  }
}

// There are the groups of two ranks for each of two experts.
TEST_CASE("experts' products of 8 bits are those of what they stand for", "[exec][kernels]") {
  const auto backend = make_cpu_backend(2);
  const std::int64_t experts = 2, groups = 4, slots = 32, in = 64, out = 96;
  const Matrix x = random_matrix(groups * slots, in, 1), dy = random_matrix(groups * slots, out, 2),
               w = random_matrix(experts * out, in, 3);
  for (Attributes a : {tensorwise(Dtype::e4m3), in_blocks(Dtype::e4m3, 1, 32)}) {
    a.with_transposed = true;
    a.matrices = static_cast<int>(groups);
    const auto qx = quantize(*backend, x, a), qdy = quantize(*backend, dy, a);
    a.matrices = static_cast<int>(experts);
    const auto qw = quantize(*backend, w, a);
    auto of_experts = qw;
    of_experts[0].type.shape = Shape{experts, out, in};
    of_experts[1].type.shape = Shape{experts, in, out};
    Attributes product;
    product.experts = static_cast<int>(groups);
    product.micro_batch = 1;
    product.expert_capacity = static_cast<int>(slots);
    const auto expert_of = [&](std::int64_t row) { return row / slots % experts; };
    check_sums(
        multiply(*backend, Op::expert_linear, product, qx[0], of_experts[0], {groups * slots, out}),
        groups * slots, out, in, [&](std::int64_t r, std::int64_t c, std::int64_t i) {
          return qx[0].at(r, i) * qw[0].at(expert_of(r) * out + c, i);
        });
    product.weight_in_out = true;  // as columns of W along memory
    check_sums(multiply(*backend, Op::expert_linear_grad_input, product, qdy[0], of_experts[1],
                        {groups * slots, in}),
               groups * slots, in, out, [&](std::int64_t r, std::int64_t c, std::int64_t i) {
                 return qdy[0].at(r, i) * qw[1].at(expert_of(r) * in + c, i);
               });
    product.weight_in_out = false;
    for (const bool turned : {false, true}) {
      product.factors_transposed = turned;
      const std::size_t which = turned ? 1 : 0;
      const auto of = [&](const std::vector<Quantized>& q, std::int64_t width, std::int64_t row,
                          std::int64_t column) {
        return turned ? q[1].at(row / slots * width + column, row % slots) : q[0].at(row, column);
      };
      check_sums(multiply(*backend, Op::expert_linear_grad_weight, product, qx[which], qdy[which],
                          {experts, out, in}),
                 experts * out, in, groups / experts * slots,
                 [&](std::int64_t r, std::int64_t c, std::int64_t i) {
                   const std::int64_t row = (i / slots * experts + r / out) * slots + i % slots;
                   return of(qdy, out, row, r % out) * of(qx, in, row, c);
                 });
    }
  }
}
