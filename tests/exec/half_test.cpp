// Tests 16-bit numbers: conversion against the definition of the formats, and kernels on 16-bit
// operands against the fp32 kernels.
#include "exec/core/half.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "exec/backends/cpu/cpu_backend.h"
#include "models/program/graph/widen.h"
#include "tests/catch.h"
#include "tests/exec/op_cases.h"
#include "tests/one_in.h"

using namespace meshwright::tests;

namespace {

bool same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

template <typename T>
bool is_nan(T x) {
  return std::isnan(reference_value(x));
}

Half reference_of(float x, Half) { return reference_half(x); }
BFloat16 reference_of(float x, BFloat16) { return reference_bfloat16(x); }

// Converts every 16-bit number, in rows whose length is no multiple of a vector.
template <typename T>
void check_all_values() {
  std::vector<T> all;
  for (int bits = 0; bits < 1 << 16; ++bits) all.push_back({static_cast<std::uint16_t>(bits)});
  std::vector<float> wide(all.size());
  std::vector<T> back(all.size());
  constexpr std::int64_t row = 1021;
  const auto count = static_cast<std::int64_t>(all.size());
  for (std::int64_t at = 0; at < count; at += row) {
    widen(all.data() + at, std::min(row, count - at), wide.data() + at);
    narrow(wide.data() + at, std::min(row, count - at), back.data() + at);
  }
  int wrong = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    wrong += !same(wide[i], reference_value(all[i]));
    wrong += is_nan(all[i]) ? !is_nan(back[i]) : back[i].bits != all[i].bits;
  }
  CHECK(wrong == 0);
}

// Rounds numbers between all neighbours: a quarter, half and three quarters of the way, and the
// next fp32 numbers on both sides.
template <typename T>
void check_rounding() {
  std::vector<float> values;
  for (int bits = 0; bits < 0x7FFF; ++bits) {
    const float low = reference_value(T{static_cast<std::uint16_t>(bits)});
    const float high = reference_value(T{static_cast<std::uint16_t>(bits + 1)});
    if (!std::isfinite(high)) break;
    for (const float part : {0.25F, 0.5F, 0.75F}) {
      const float between = low + (high - low) * part;
      for (const float x : {between, std::nextafter(between, low), std::nextafter(between, high)})
        values.insert(values.end(), {x, -x});
    }
  }
  for (const float x : {65504.0F, 65519.99F, 65520.0F, 1e38F, 3.4028235e38F, INFINITY, NAN, 1e-30F})
    values.insert(values.end(), {x, -x});
  std::vector<T> rounded(values.size());
  narrow(values.data(), static_cast<std::int64_t>(values.size()), rounded.data());
  int wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const T expected = reference_of(values[i], T{});
    wrong += is_nan(expected) ? !is_nan(rounded[i]) : rounded[i].bits != expected.bits;
  }
  CHECK(wrong == 0);
}

double unit_of(Dtype dtype) { return dtype == Dtype::f16 ? 0x1p-11 : 0x1p-8; }

// Returns the tensor's numbers in the type `dtype`, which may round them. Integers stay i32.
OpTensor in_type(const OpTensor& from, Dtype dtype) {
  if (from.type.dtype == Dtype::i32) return from;
  OpTensor to({from.type.shape, dtype});
  for (std::int64_t i = 0; i < to.elements(); ++i) to.set(i, from.get(i));
  return to;
}

}  // namespace

TEST_CASE("all 65536 numbers of both formats convert exactly, there and back", "[exec][half]") {
  check_all_values<Half>();
  check_all_values<BFloat16>();
}

TEST_CASE("fp32 rounds to the nearest 16-bit number, ties to even", "[exec][half]") {
  check_rounding<Half>();
  check_rounding<BFloat16>();
  // Half of the way from 1 to its neighbour is rounded to 1, whose last bit is even. The next tie
  // is rounded up.
  CHECK(reference_half(1 + 0x1p-11F).bits == 0x3C00);
  CHECK(reference_half(1 + 0x1.8p-10F).bits == 0x3C02);
  CHECK(reference_bfloat16(1 + 0x1p-8F).bits == 0x3F80);
  // The largest half is 65504. Half a step above becomes infinite. The least is 2^-24.
  CHECK(reference_half(65519.99F).bits == 0x7BFF);
  CHECK(reference_half(65520.0F).bits == 0x7C00);
  CHECK(reference_value(Half{1}) == 0x1p-24F);
  CHECK(reference_half(0x1p-25F).bits == 0);
}

// Checks that results in 16 bits are the fp32 kernel's results, rounded once. They may be off by
// the type's unit roundoff, relative to the largest element, and by the difference between two fp32
// sums of the same terms (below 1e-5 here, because pieces add them in another order). Halves below
// 2^-14 have fixed steps of 2^-24.
void check_rounded(const OpTensor& got, const OpTensor& expected) {
  const Dtype dtype = got.type.dtype;
  const double relative = 1e-5 + (is_16_bit(dtype) ? unit_of(dtype) : 0);
  double largest = 0, worst = 0;
  for (std::int64_t i = 0; i < got.elements(); ++i) {
    const double difference = std::fabs(got.get(i) - expected.get(i));
    worst = difference <= worst ? worst : difference;
    largest = std::max(largest, std::fabs(expected.get(i)));
  }
  CHECK(worst <= relative * largest + (dtype == Dtype::f16 ? 0x1p-25 : 1e-12));
}

TEST_CASE("kernels on 16-bit operands round the fp32 kernels' results", "[exec][half]") {
  const auto backend = make_cpu_backend(2);
  const Dtype dtype = GENERATE(Dtype::f16, Dtype::bf16);
  Runner wide(*backend, Dtype::f32), narrow_runner(*backend, dtype);
  int turn = dtype == Dtype::f16 ? 0 : 1;  // each case in one of the types, or in both
  for (const auto& cases : {small_cases(), large_cases()})
    for (const Case& c : cases) {
      if (!is_tried(++turn, 2)) continue;
      INFO(c.name);
      const Played p = play(narrow_runner, c);
      std::vector<OpTensor> inputs, outputs;
      for (const OpTensor& input : p.inputs) inputs.push_back(in_type(input, Dtype::f32));
      const std::vector<OpTensor> expected = forward(wide, c, inputs);
      for (const OpTensor& output : p.outputs) outputs.push_back(in_type(output, Dtype::f32));
      const std::vector<OpTensor> gradients =
          rule_of(c.op).gradient(wide, c, inputs, outputs, in_type(p.dy, Dtype::f32));
      for (std::size_t i = 0; i < expected.size(); ++i) check_rounded(p.outputs[i], expected[i]);
      for (std::size_t i = 0; i < gradients.size(); ++i)
        check_rounded(p.gradients[i], gradients[i]);
    }
}

TEST_CASE("kernels on 16-bit operands do not depend on the number of threads", "[exec][half]") {
  const auto one = make_cpu_backend(1), three = make_cpu_backend(3);
  Runner with_one(*one, Dtype::bf16), with_three(*three, Dtype::bf16);
  for (const Case& c : large_cases()) {
    INFO(c.name);
    const Played first = play(with_one, c);
    for (Runner* runner : {&with_one, &with_three}) {
      const Played again = play(*runner, c);
      for (std::size_t i = 0; i < first.outputs.size(); ++i)
        CHECK(first.outputs[i].storage == again.outputs[i].storage);
      for (std::size_t i = 0; i < first.gradients.size(); ++i)
        CHECK(first.gradients[i].storage == again.gradients[i].storage);
    }
  }
}

// There is more than one block in every direction: 1024, 512 and 2048 are the longest.
TEST_CASE("large products of 16-bit matrices are summed in fp32 over all blocks", "[exec][half]") {
  const auto backend = make_cpu_backend(2);
  Runner wide(*backend, Dtype::f32), narrow_runner(*backend, Dtype::bf16);
  for (const bool in_out : {false, true}) {
    Attributes a;
    a.weight_in_out = in_out;
    const std::int64_t rows = 1030, in = 2100, out = 530;
    const Case c{"linear",
                 Op::linear,
                 a,
                 {{{rows, in}}, {in_out ? Shape{in, out} : Shape{out, in}}, {{out}}},
                 {{rows, out}}};
    const Played p = play(narrow_runner, c);
    std::vector<OpTensor> inputs;
    for (const OpTensor& input : p.inputs) inputs.push_back(in_type(input, Dtype::f32));
    const std::vector<OpTensor> expected = forward(wide, c, inputs);
    check_rounded(p.outputs[0], expected[0]);
    const auto gradients =
        rule_of(c.op).gradient(wide, c, inputs, expected, in_type(p.dy, Dtype::f32));
    for (std::size_t i = 0; i < gradients.size(); ++i) check_rounded(p.gradients[i], gradients[i]);
  }
}
