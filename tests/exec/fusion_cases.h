// Bodies of fused operations: each operation that works by rows, epilogues of matmuls, and random
// ones.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "models/architectures/model.h"
#include "models/program/graph/fusion.h"
#include "tests/exec/op_runner.h"

namespace meshwright::tests {

struct FusionCase {
  std::string name;
  Fusion fusion;
};

struct RowSizes {
  int batch = 3, length = 7;  // 3 sequences of 7 tokens: 21 rows
  int width = 96;
  Dtype stored = Dtype::f32;
};

// Returns every operation with a row rule except matmuls, some of them in several forms.
std::vector<FusionCase> single_operations(const RowSizes& sizes);
std::vector<FusionCase> epilogues(const RowSizes& sizes);
FusionCase residual_and_norm(const RowSizes& sizes);  // add + layer_norm, the sum is an output too
FusionCase random_body(const RowSizes& sizes, std::uint64_t seed);  // 2 to 6 steps

// Returns random inputs and sums of a fusion, and NaN in the outputs that it writes.
std::vector<OpTensor> random_operands(const Fusion& fusion, std::uint64_t seed);
OpContext some_place();  // the context of a rank in the middle
// If `overwrites` is set, the sums that can be overwritten hold NaN before.
void run_fusion(Backend& backend, const Fusion& fusion, std::vector<OpTensor>& operands,
                bool overwrites = false);
double tolerance_of(const Fusion& fusion);  // allowed difference from the CPU's results

// Returns what CUDA kernels are generated for in the model's graph at compiler level full: every
// fused operation that works by rows, and the epilogues of the others.
std::vector<FusionCase> fusions_of(const Model& model, const Training& training);

}  // namespace meshwright::tests
