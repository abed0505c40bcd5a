// Tests that CUDA kernels which round to 8 bits make the same bits as the CPU's.
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "exec/backends/cpu/cpu_backend.h"
#include "exec/core/eight_bits.h"
#include "exec/core/half.h"
#include "models/core/error.h"
#include "models/program/graph/op_table.h"
#include "tests/catch.h"
#include "tests/exec/half_unit.h"
#include "tests/exec/table_backend.h"
#include "tests/exec/tested_device.h"

using namespace meshwright::tests;

namespace {

using Bytes = std::vector<std::byte>;

// Returns random numbers of many magnitudes, as gradients have.
std::vector<BFloat16> random_numbers(std::int64_t count) {
  std::mt19937_64 generator(3);
  std::vector<BFloat16> numbers;
  for (std::int64_t i = 0; i < count; ++i) {
    const double unit = static_cast<double>(generator() >> 11U) * 0x1p-53;
    const int power = -static_cast<int>(generator() % 16);
    numbers.push_back(reference_bfloat16(static_cast<float>(std::ldexp(2 * unit - 1, power))));
  }
  return numbers;
}

std::vector<Bytes> results_of(Backend& backend, Op op, const Attributes& a,
                              const std::vector<TensorType>& in,
                              const std::vector<const void*>& from) {
  std::vector<TensorType> out;
  info(op).infer(a, in, out);
  std::vector<Bytes> made;
  for (const TensorType& type : out) made.emplace_back(static_cast<std::size_t>(type.bytes()));
  std::vector<void*> to;
  for (Bytes& bytes : made) to.push_back(bytes.data());
  const OpCall call{op, a, in, out};
  Bytes scratch(static_cast<std::size_t>(backend.workspace_bytes(call)));
  OpContext context;
  context.workspace = scratch.data();
  backend.run(call, {from, to}, context);
  return made;
}

void check_same(TableBackend& device, Backend& cpu, Op op, const Attributes& a,
                const std::vector<TensorType>& in, const std::vector<const void*>& from) {
  const std::vector<Bytes> found = results_of(device, op, a, in, from);
  CHECK(found == results_of(cpu, op, a, in, from));
  CHECK(device.ran.contains(op));
}

// A sum of products of 8-bit numbers, and how far sums by other methods may be from it.
struct SumOfProducts {
  double value;
  double in_fp32;      // error of fp32 sums
  double on_a_device;  // error of Hopper's tensor cores
};

// Hopper's tensor cores add 32 products at once. The products and the sum before them are truncated
// 13 bits below the leading bit of the largest. Without fast accumulation this holds too, except
// that the sums of several such steps are added in fp32. A product has 4 + 4 significant bits. If
// it is 1/32 of the largest or more it loses nothing, otherwise less than a unit and no more than
// itself. A step's sum loses a unit when it is stored and one when the next step reads it.
SumOfProducts sum_of_products(const float* a, const float* b, std::int64_t count) {
  constexpr std::int64_t at_once = 32;
  SumOfProducts sum{};
  double largest = 0, magnitudes = 0;
  const auto product = [&](std::int64_t i) { return static_cast<double>(a[i]) * b[i]; };
  for (std::int64_t begin = 0; begin < count; begin += at_once) {
    double of_step = 0;
    for (std::int64_t i = begin; i < std::min(begin + at_once, count); ++i) {
      of_step += product(i);
      magnitudes += std::fabs(product(i));
      largest = std::max(largest, std::fabs(product(i)));
    }
    if (count > at_once) largest = std::max(largest, std::fabs(of_step));
    sum.value += of_step;
  }
  sum.in_fp32 = static_cast<double>(count) * 0x1p-24 * magnitudes;
  const double unit = 0x1p-13 * largest;
  sum.on_a_device = sum.in_fp32 + 2 * unit * static_cast<double>((count + at_once - 1) / at_once);
  for (std::int64_t i = 0; i < count; ++i)
    if (std::fabs(product(i)) < largest / 32)
      sum.on_a_device += std::min(std::fabs(product(i)), unit);
  return sum;
}

}  // namespace

TEST_CASE("tensors in 8 bits are the same on a GPU and on a CPU", "[exec][cuda]") {
  TableBackend device;
  const auto cpu = make_cpu_backend(1);
  const std::int64_t rows = 128, columns = 256;
  std::vector<BFloat16> x = random_numbers(rows * columns);
  const std::vector<TensorType> matrix = {{Shape{rows, columns}, Dtype::bf16}};
  const auto check = [&] {
    check_same(device, *cpu, Op::amax, {}, matrix, {x.data()});
    const Bytes largest = results_of(*cpu, Op::amax, {}, matrix, {x.data()})[0];
    for (const bool transposed : {false, true}) {
      Attributes a;
      a.with_transposed = transposed;
      for (const Dtype format : {Dtype::e4m3, Dtype::e5m2}) {
        a.made = format;
        check_same(device, *cpu, Op::quantize, a, {matrix[0], {Shape{1}, Dtype::f32}},
                   {x.data(), largest.data()});
      }
      a.scales_are_powers = true;
      for (const auto& [height, width] : {std::pair{1, 128}, {128, 128}, {1, 32}}) {
        a.made = Dtype::e4m3;
        a.scale_rows = height, a.scale_columns = width;
        check_same(device, *cpu, Op::quantize, a, matrix, {x.data()});
      }
    }
  };
  check();
  std::fill(x.begin() + 300, x.begin() + 700, BFloat16{0});
  check();
  x.assign(x.size(), BFloat16{0});
  check();
}

TEST_CASE("scales of what earlier steps saw are the same on a GPU and on a CPU", "[exec][cuda]") {
  TableBackend device;
  const auto cpu = make_cpu_backend(1);
  const Shape shape{64, 96};
  const std::vector<BFloat16> x = random_numbers(shape.elements());
  const TensorType matrix{shape, Dtype::bf16}, pair{Shape{2}, Dtype::f32};
  for (const bool transposed : {false, true})
    for (const Dtype format : {Dtype::e4m3, Dtype::e5m2})
      for (const float before : {0.0F, 0.5F, 3.0F}) {
        Attributes a;
        a.made = format;
        a.with_transposed = transposed;
        a.scales_of_before = true;
        a.scale = 0.01;
        const auto round_on = [&](Backend& backend) {
          const std::vector<TensorType> in = {matrix, pair};
          std::vector<TensorType> out;
          info(Op::quantize).infer(a, in, out);
          std::vector<Bytes> made;
          for (const TensorType& type : out)
            made.emplace_back(static_cast<std::size_t>(type.bytes()));
          std::vector<float> largest = {before, 0.25F};
          const std::vector<float> read = largest;
          out.push_back(pair);
          std::vector<void*> to;
          for (Bytes& bytes : made) to.push_back(bytes.data());
          to.push_back(largest.data());
          const std::vector<const void*> from = {x.data(), read.data()};
          const OpCall call{Op::quantize, a, in, out};
          Bytes scratch(static_cast<std::size_t>(backend.workspace_bytes(call)));
          OpContext context;
          context.workspace = scratch.data();
          backend.run(call, {from, to}, context);
          return std::pair{made, largest};
        };
        const auto found = round_on(device), expected = round_on(*cpu);
        CHECK(found == expected);
        CHECK(expected.second[0] == before);
        CHECK(expected.second[1] > 0.25F);
        float scale = 0;
        std::memcpy(&scale, expected.first[1].data(), sizeof scale);
        const float largest = largest_of(format);
        CHECK(scale == (before == 0 ? 0x1p-7F : 1 / (largest / before)));
      }
}

TEST_CASE("histories of largest elements move on alike on a GPU and on a CPU", "[exec][cuda]") {
  TableBackend device;
  const auto cpu = make_cpu_backend(1);
  const std::int64_t steps = 600;
  const TensorType of_pairs{Shape{4, 2}, Dtype::f32}, of_histories{Shape{4, steps}, Dtype::f32};
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> pairs = {9, 2, 9, 0.5F, 9, infinity, 0, 0};
  std::vector<float> histories(static_cast<std::size_t>(4 * steps), 0);
  for (std::int64_t i = 0; i < 3 * steps; ++i)
    histories[static_cast<std::size_t>(i)] = 1 / static_cast<float>(1 + i % steps);
  const auto move_on = [&](Backend& backend, double norm) {
    const double loss = 1;
    const TensorType one{Shape{1}, Dtype::f64};
    const std::vector<TensorType> in = {one, one}, out = {of_pairs, of_histories};
    std::vector<float> largest = pairs, history = histories;
    const std::vector<const void*> from = {&norm, &loss};
    const std::vector<void*> to = {largest.data(), history.data()};
    backend.run({Op::update_largest, {}, in, out}, {from, to}, {});
    return std::pair{largest, history};
  };
  const auto found = move_on(device, 4), expected = move_on(*cpu, 4);
  CHECK(found == expected);
  // The oldest value, which was 1, is forgotten.
  CHECK(expected.first == std::vector<float>{2, 0, 0.5F, 0, 0.5F, 0, 0, 0});
  CHECK(expected.second[0] == 0.5F);
  CHECK(expected.second[static_cast<std::size_t>(steps - 1)] == 2);
  CHECK(expected.second[static_cast<std::size_t>(3 * steps - 1)] == 0);
  for (const double norm : {double(NAN), double(INFINITY)}) {
    const auto kept = std::pair{pairs, histories};
    CHECK(move_on(device, norm) == kept);
    CHECK(move_on(*cpu, norm) == kept);
  }
}

TEST_CASE("a GPU transposes matrices of any type and size", "[exec][cuda]") {
  TableBackend device;
  const auto cpu = make_cpu_backend(1);
  for (const Dtype dtype : {Dtype::e4m3, Dtype::bf16, Dtype::f32})
    for (const Shape& shape : {Shape{32, 64}, Shape{70, 33}, Shape{1, 100}}) {
      const std::vector<TensorType> matrix = {{shape, dtype}};
      const std::vector<BFloat16> bits = random_numbers(2 * shape.elements());
      check_same(device, *cpu, Op::transpose, {}, matrix, {bits.data()});
    }
}

TEST_CASE("products of 8 bits on a GPU are those of a CPU", "[exec][cuda]") {
  TableBackend device;
  const auto cpu = make_cpu_backend(1);
  const std::int64_t m = 64, n = 48, k = 32;
  const TensorType scale{Shape{1, 1}, Dtype::f32};
  const float scales[] = {0.03F, 0.5F};
  struct Product {
    Op op;
    Shape first, second, result;
    Dtype of_first, of_second, made;
    bool in_out, transposed, bias;
  };
  constexpr Dtype e4m3 = Dtype::e4m3, e5m2 = Dtype::e5m2;
  for (const Product& p :
       {Product{Op::linear, {m, k}, {n, k}, {m, n}, e4m3, e4m3, Dtype::bf16, false, false, true},
        Product{Op::linear, {m, k}, {n, k}, {m, n}, e4m3, e4m3, Dtype::bf16, false, false, false},
        Product{Op::linear_grad_input,
                {m, n},
                {k, n},
                {m, k},
                e5m2,
                e4m3,
                Dtype::bf16,
                true,
                false,
                false},
        Product{Op::linear_grad_weight,
                {k, m},
                {n, m},
                {n, k},
                e4m3,
                e5m2,
                Dtype::f32,
                false,
                true,
                false},
        Product{Op::linear_grad_weight,
                {k, m},
                {n, m},
                {k, n},
                e4m3,
                e5m2,
                Dtype::f32,
                true,
                true,
                false}}) {
    INFO(info(p.op).name);
    Attributes a;
    a.made = Dtype::bf16;
    a.weight_in_out = p.in_out;
    a.factors_transposed = p.transposed;
    std::mt19937 generator(5);
    const auto bits = [&](const Shape& shape) {  // codes without the largest quarter
      std::vector<std::uint8_t> all(static_cast<std::size_t>(shape.elements()));
      for (std::uint8_t& each : all) each = static_cast<std::uint8_t>(generator() & 0xbfU);
      return all;
    };
    const std::vector<std::uint8_t> first = bits(p.first), second = bits(p.second);
    const std::vector<BFloat16> bias = random_numbers(n);
    std::vector<TensorType> in = {{p.first, p.of_first}, {p.second, p.of_second}, scale, scale};
    std::vector<const void*> from = {first.data(), second.data(), &scales[0], &scales[1]};
    if (p.bias) in.push_back({Shape{n}, Dtype::bf16}), from.push_back(bias.data());
    const TensorType out{p.result, p.made};
    const OpCall call{p.op, a, in, {&out, 1}};
    const auto made_by = [&](Backend& backend) {
      Bytes made(static_cast<std::size_t>(out.bytes())),
          scratch(static_cast<std::size_t>(backend.workspace_bytes(call)));
      void* to = made.data();
      OpContext context;
      context.workspace = scratch.data();
      backend.run(call, {from, {&to, 1}}, context);
      std::vector<float> numbers(static_cast<std::size_t>(p.result.elements()));
      widen(made.data(), p.made, p.result.elements(), numbers.data());
      return numbers;
    };
    const long long before = products_in_fp8();
    const std::vector<float> found = made_by(device), expected = made_by(*cpu);
    if (device_is_emulated()) CHECK(products_in_fp8() == before + 2);  // in both orders of threads

    // The rows of both factors are multiplied. The sums are scaled and get their bias in fp32, and
    // are then rounded. A GPU's library may round before the bias too, as it does before a start.
    const auto widened = [](const std::vector<std::uint8_t>& numbers, Dtype format) {
      std::vector<float> wide(numbers.size());
      widen_8_bits(numbers.data(), format, static_cast<std::int64_t>(wide.size()), 1, wide.data());
      return wide;
    };
    const std::vector<float> left = widened(first, p.of_first),
                             right = widened(second, p.of_second);
    const std::int64_t depth = p.first[1];
    const bool second_first = p.transposed && !p.in_out;  // rows of the result are the second's
    const double scale_of_both = static_cast<double>(scales[0]) * scales[1];
    double beyond = -INFINITY, beyond_on_cpu = -INFINITY, largest = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      const std::int64_t row = at / p.result[1], column = at % p.result[1];
      const SumOfProducts sum =
          sum_of_products(&left[(second_first ? column : row) * depth],
                          &right[(second_first ? row : column) * depth], depth);
      const double added =
          p.bias ? static_cast<double>(reference_value(bias[static_cast<std::size_t>(column)])) : 0;
      const double exact = sum.value * scale_of_both + added;
      // Three operations in fp32 follow the sum.
      const double after = 0x1.8p-23 * (std::fabs(sum.value * scale_of_both) + std::fabs(added));
      const auto error_beyond = [&](float value, double of_sum, bool twice) {
        double margin = of_sum * scale_of_both + after;
        if (twice) margin += half_unit(p.made, std::fabs(sum.value * scale_of_both) + margin);
        const double error = std::isnan(value) ? INFINITY : std::fabs(value - exact);
        return error - margin - half_unit(p.made, std::fabs(exact) + margin);
      };
      const double in_fp32 = error_beyond(found[i], sum.in_fp32, false);
      beyond = std::max(
          beyond, device_is_emulated() ? in_fp32 : error_beyond(found[i], sum.on_a_device, p.bias));
      beyond_on_cpu = std::max(beyond_on_cpu, error_beyond(expected[i], sum.in_fp32, false));
      largest = std::max(largest, std::fabs(exact));
    }
    CHECK(beyond <= 0);
    CHECK(beyond_on_cpu <= 0);
    CHECK(largest > 0);
  }
}

TEST_CASE("products of blocks with scales of their own are refused on a GPU", "[exec][cuda]") {
  TableBackend device;
  const std::vector<TensorType> in = {{Shape{32, 64}, Dtype::e4m3},
                                      {Shape{16, 64}, Dtype::e4m3},
                                      {Shape{32, 2}, Dtype::f32},
                                      {Shape{16, 2}, Dtype::f32}};
  const TensorType out{Shape{32, 16}, Dtype::bf16};
  Attributes a;
  a.made = Dtype::bf16;
  CHECK_THROWS_AS(device.run({Op::linear, a, in, {&out, 1}}, {}, {}), NotSupportedYet);
}
