// The CUDA kernels on the emulated device beside the CPU backend in double precision.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "exec/backends/cpu/cpu_backend.h"
#include "exec/backends/cuda/tables.h"
#include "tests/catch.h"
#include "tests/exec/op_cases.h"
#include "tests/exec/table_backend.h"

using namespace meshwright;

namespace {

OpTensor in_double(const OpTensor& tensor) {
  if (tensor.type.dtype == Dtype::i32) return tensor;
  OpTensor wide({tensor.type.shape, Dtype::f64});
  for (std::int64_t i = 0; i < tensor.elements(); ++i) wide.set(i, tensor.get(i));
  return wide;
}

// The same case with the same numbers.
Played play_in_double(Runner& runner, const Case& c, const Played& of) {
  Played played;
  for (const OpTensor& tensor : of.inputs) played.inputs.push_back(in_double(tensor));
  played.outputs = forward(runner, c, played.inputs);
  played.dy = in_double(of.dy);
  played.gradients = rule_of(c.op).gradient(runner, c, played.inputs, played.outputs, played.dy);
  return played;
}

double largest(const OpTensor& tensor) {
  double found = 0;
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    const double size = std::fabs(tensor.get(i));
    if (!(size <= found)) found = std::isnan(size) ? INFINITY : size;
  }
  return found;
}

void compare_outputs(const std::vector<OpTensor>& found, const std::vector<OpTensor>& expected,
                     double tolerance) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    INFO("output " << i);
    CHECK(distance(found[i], expected[i]) < tolerance);
  }
}

// Gradients that should be next to nothing are differences of terms of dy's size, and of norms of
// that times the saved 1/std.
void compare_gradients(const Played& found, const Played& expected, double tolerance) {
  REQUIRE(found.gradients.size() == expected.gradients.size());
  double terms = largest(expected.dy);
  if (expected.outputs.size() > 1) terms *= std::max(1.0, largest(expected.outputs[1]));
  for (std::size_t i = 0; i < found.gradients.size(); ++i) {
    INFO("gradient " << i);
    const double own = largest(expected.gradients[i]);
    const double scale = own < 1e-4 * terms ? terms : own;
    CHECK(distance(found.gradients[i], expected.gradients[i]) * std::max(own, 1e-30) <
          tolerance * scale);
  }
}

std::vector<Case> all_cases() {
  std::vector<Case> cases = small_cases();
  for (Case& c : large_cases()) cases.push_back(std::move(c));
  return cases;
}

// Operations that are no part of a case above.
bool has_own_test(Op op) {
  constexpr Op ops[] = {Op::fused, Op::sequence_slice};
  return std::find(std::begin(ops), std::end(ops), op) != std::end(ops);
}

}  // namespace

TEST_CASE("CUDA kernels compute what the CPU does in double precision", "[exec][cuda]") {
  const Dtype dtype = GENERATE(Dtype::f32, Dtype::bf16, Dtype::f16);
  const auto cpu = make_cpu_backend(1);
  Runner reference(*cpu, Dtype::f64);
  TableBackend tables;
  Runner runner(tables, dtype);
  const double tolerance = dtype == Dtype::f32 ? 1e-5 : 1e-2;
  std::set<Op> compared;
  for (const Case& c : all_cases()) {
    INFO(c.name);
    tables.ran.clear();
    const Played found = play(runner, c);
    if (tables.ran.empty()) continue;  // no kernel yet
    compared.insert(tables.ran.begin(), tables.ran.end());
    const Played expected = play_in_double(reference, c, found);
    compare_outputs(found.outputs, expected.outputs, tolerance);
    compare_gradients(found, expected, tolerance);
  }
  for (const cuda::Table table : cuda::tables)
    for (const cuda::Row& row : table()) {
      INFO(info(row.op).name);
      CHECK((compared.count(row.op) > 0 || has_own_test(row.op)));
    }
}
