// Compares the CUDA kernels on the emulated device with the CPU backend in double precision.
#include <algorithm>
#include <iterator>
#include <set>

#include "exec/backends/cuda/tables.h"
#include "models/program/graph/op_table.h"
#include "tests/catch.h"
#include "tests/exec/beside_double.h"
#include "tests/one_in.h"
#include "tests/sanitized.h"

using namespace meshwright::tests;

namespace {

// Runs the same case with the same numbers in double. The gradients are computed from what the
// other backend's forward pass saved, with its rounding.
Played play_in_double(Runner& runner, const Case& c, const Played& of) {
  Played played;
  for (const OpTensor& tensor : of.inputs) played.inputs.push_back(in_double(tensor));
  played.outputs = forward(runner, c, played.inputs);
  played.dy = in_double(of.dy);
  std::vector<OpTensor> saved;
  for (const OpTensor& tensor : of.outputs) saved.push_back(in_double(tensor));
  played.gradients = rule_of(c.op).gradient(runner, c, played.inputs, saved, played.dy);
  return played;
}

void compare_outputs(const std::vector<OpTensor>& found, const std::vector<OpTensor>& expected,
                     double tolerance) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    INFO("output " << i);
    CHECK(distance(found[i], expected[i]) < tolerance);
  }
}

// Compares gradients. Some should be nearly zero, but are differences of terms of dy's size, in
// norms times the saved 1/std. Their tolerance is relative to these terms.
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
  for (Case& c : device_cases()) cases.push_back(std::move(c));
  return cases;
}

const bool thinned = sanitized || !all_are_tried();

// Returns whether the operation has a test elsewhere: cuda_experts_test, cuda_eager_test,
// cuda_fused_test, cuda_losses_test, cuda_quantized_test or cuda_rows_test.
bool has_own_test(Op op) {
  constexpr Op ops[] = {Op::amax,
                        Op::combine,
                        Op::combine_grad,
                        Op::context_attention,
                        Op::context_attention_grad,
                        Op::context_pack,
                        Op::context_unpack,
                        Op::count_choices,
                        Op::cross_entropy_combine,
                        Op::cross_entropy_stats,
                        Op::dispatch,
                        Op::dispatch_grad,
                        Op::fused,
                        Op::image_patches,
                        Op::mask_scores,
                        Op::norm_parts,
                        Op::norm_parts_grad,
                        Op::norm_parts_sums,
                        Op::norm_stats,
                        Op::quantize,
                        Op::route,
                        Op::route_grad,
                        Op::sequence_slice,
                        Op::sum_loss,
                        Op::sum_of_squares,
                        Op::transpose,
                        Op::update_largest,
                        Op::zero};
  return std::find(std::begin(ops), std::end(ops), op) != std::end(ops);
}

// Checks each case in one of three precisions, unless all cases are tried. Then every kernel must
// have a case.
void check_all_kernels(Dtype dtype) {
  Beside beside(dtype);
  std::set<Op> compared;
  int turn = static_cast<int>(dtype);
  for (const Case& c : all_cases()) {
    INFO(c.name);
    if (thinned && (turn++ + draw_of_run()) % 3 != 0) continue;
    if (cuda::row_of(c.op) == nullptr) continue;  // no kernel yet
    // With few narrow values, what dropout leaves cancels in 16 bits. The test in fp32 covers these
    // cases.
    if (dtype != Dtype::f32 && c.attributes.value_dim > 0 && c.attributes.dropout > 0) continue;
    beside.tables.ran.clear();
    const Played found = play(beside.runner, c);
    compared.insert(beside.tables.ran.begin(), beside.tables.ran.end());
    const Played expected = play_in_double(beside.reference, c, found);
    compare_outputs(found.outputs, expected.outputs, beside.tolerance());
    compare_gradients(found, expected, beside.tolerance());
  }
  if (thinned) return;
  for (cuda::Table* table : cuda::tables)
    for (const cuda::Row& row : table()) {
      INFO(info(row.op).name);
      CHECK((compared.count(row.op) > 0 || has_own_test(row.op)));
    }
}

}  // namespace

TEST_CASE("CUDA kernels compute in fp32 what the CPU does in double", "[exec][cuda]") {
  check_all_kernels(Dtype::f32);
}

TEST_CASE("CUDA kernels compute in bf16 what the CPU does in double", "[exec][cuda]") {
  check_all_kernels(Dtype::bf16);
}

TEST_CASE("CUDA kernels compute in fp16 what the CPU does in double", "[exec][cuda]") {
  check_all_kernels(Dtype::f16);
}
