// Lists the operations that a step has in addition to the model's, and the fused operation.
#include <algorithm>

#include "models/program/graph/fusion.h"
#include "models/program/graph/op_table.h"
#include "models/program/graph/ops/families.h"
#include "models/program/graph/ops/rules.h"

namespace meshwright::program {

namespace {

double outside_traffic(const Fusion& fusion) {
  double traffic = 0;
  for (int id = 0; id < fusion.first_internal(); ++id)
    traffic += bytes(fusion.operands[id]) * (fusion.is_sum(id) ? 2 : 1);
  return traffic;
}

// Appends the kernels of one step of a fusion on `rows` rows.
void append_step(const Fusion& fusion, const FusedStep& step, std::int64_t rows,
                 CompilerLevel level, KernelList& kernels) {
  std::vector<TensorType> inputs, outputs;
  for (int id : step.inputs) inputs.push_back(fusion.of_block(id, rows));
  for (int id : step.outputs) outputs.push_back(fusion.of_block(id, rows));
  append_kernels({step.op, step.attributes, inputs, outputs}, level, kernels);
}

// Returns the bytes that the epilogue of a matmul moves in addition to the `of_product` bytes of
// the matmul itself. A device hides little of this traffic. Steps that sum over rows read the
// epilogue's result again, so their inputs count too.
double epilogue_traffic(const Fusion& fusion, double of_product) {
  double traffic = std::max(0.0, outside_traffic(fusion) - of_product);
  for (std::size_t i = 1; i < fusion.steps.size(); ++i)
    if (std::ranges::any_of(fusion.steps[i].outputs, [&](int id) { return fusion.is_sum(id); }))
      for (int id : fusion.steps[i].inputs) traffic += bytes(fusion.operands[id]);
  return traffic;
}

// Returns the kernel of several matmuls that run as one. Linear layers with one input become one
// with all their columns. Input gradients, whose results are added up, become one with all of the
// summed dimension. Matmuls with one weight become one with all their rows.
Kernel side_by_side(const Fusion& fusion, CompilerLevel level) {
  KernelList each;
  for (const FusedStep& step : fusion.steps) append_step(fusion, step, fusion.rows, level, each);
  Kernel all = each.front();
  const FusedStep &first = fusion.steps.front(), &last = fusion.steps.back();
  const bool one_weight = each.size() > 1 && first.inputs[1] == last.inputs[1];
  const auto size = one_weight                          ? &Kernel::m
                    : first.op == Op::linear_grad_input ? &Kernel::k
                                                        : &Kernel::n;
  for (std::size_t i = 1; i < each.size(); ++i) {
    all.*size += each[i].*size;
    all.flops += each[i].flops;
  }
  return all;
}

void infer_fused(const Attributes& a, In in, Out& out) {
  const Fusion& fusion = *a.fusion;
  require(static_cast<int>(in.size()) == fusion.inputs, "a fusion has its inputs");
  for (std::size_t i = 0; i < in.size(); ++i)
    require(in[i] == fusion.operands[i], "a fusion's inputs have their types");
  for (int i = 0; i < fusion.outputs; ++i) out.push_back(fusion.operands[fusion.inputs + i]);
}

// Appends the kernels of a fusion (Fusion::Loop). `blocks` is one kernel that reads the inputs and
// writes the outputs. `long_blocks` runs the kernels of every step, once for each block.
// `product_first` is a matmul with its epilogue as additional traffic. `products` is one matmul.
void work_fused(const OpCall& call, CompilerLevel level, KernelList& kernels) {
  const Fusion& fusion = *call.attributes.fusion;
  switch (fusion.loop) {
    case Fusion::Loop::blocks:
      memory_kernel(kernels, outside_traffic(fusion));
      break;
    case Fusion::Loop::long_blocks:
      for (std::int64_t first = 0; first < fusion.rows; first += fusion.block_rows)
        for (const FusedStep& step : fusion.steps)
          append_step(fusion, step, std::min(fusion.block_rows, fusion.rows - first), level,
                      kernels);
      break;
    case Fusion::Loop::product_first:
      append_step(fusion, fusion.steps.front(), fusion.rows, level, kernels);
      joining_traffic(kernels, epilogue_traffic(fusion, kernels.back().bytes));
      break;
    case Fusion::Loop::products:
      kernels.push_back(side_by_side(fusion, level));
      kernels.back().bytes = outside_traffic(fusion);
      break;
  }
}

void work_update_largest(const OpCall& call, CompilerLevel, KernelList& kernels) {
  memory_kernel(kernels, 2 * bytes_of_all(call.outputs));
}

// Appends two kernels that read the gradients: one sums over rows, one over columns.
void work_adafactor_sums(const OpCall& call, CompilerLevel, KernelList& kernels) {
  for (int i = 0; i < 2; ++i) memory_kernel(kernels, bytes(call.inputs[0]));
}

// Appends a kernel that moves the counts and, as many bytes each, the biases and their masters.
void work_update_choice_biases(const OpCall& call, CompilerLevel, KernelList& kernels) {
  memory_kernel(kernels, 3 * bytes(call.inputs[0]));
}

constexpr OpInfo rows[] = {
    {.op = Op::fused,
     .name = "fused",
     .takes = {1, Count::any},
     .makes = {0, Count::any},
     .infer = infer_fused,
     .work = work_fused},
    {.op = Op::zero,
     .name = "zero",
     .takes = 0,
     .makes = {0, Count::any},
     .infer = nothing,
     .work = work_write,
     .widening = moves},
    {.op = Op::sum_loss, .name = "sum_loss", .infer = nothing, .work = work_elementwise},
    {.op = Op::sum_of_squares,
     .name = "sum_of_squares",
     .infer = nothing,
     .work = work_elementwise,
     .widening = by_rows(0b1, 0)},
    {.op = Op::update_loss_scale,
     .name = "update_loss_scale",
     .makes = 2,
     .infer = nothing,
     .work = work_elementwise,
     .widening = by_optimizer},
    {.op = Op::update_largest,
     .name = "update_largest",
     .takes = 2,
     .makes = 2,
     .infer = nothing,
     .work = work_update_largest,
     .widening = moves},
    {.op = Op::lamb_norms,
     .name = "lamb_norms",
     .takes = {4, 6},
     .makes = {2, 3},
     .infer = nothing,
     .work = work_elementwise,
     .widening = by_optimizer},
    {.op = Op::muon_momentum,
     .name = "muon_momentum",
     .takes = {3, 4},
     .makes = 2,
     .infer = nothing,
     .work = work_elementwise,
     .widening = by_optimizer},
    {.op = Op::adafactor_sums,
     .name = "adafactor_sums",
     .takes = {2, 3},
     .infer = nothing,
     .work = work_adafactor_sums,
     .widening = by_optimizer},
    {.op = Op::adafactor_norms,
     .name = "adafactor_norms",
     .takes = {4, 7},
     .makes = {2, 3},
     .infer = nothing,
     .work = work_elementwise,
     .widening = by_optimizer},
    {.op = Op::update_choice_biases,
     .name = "update_choice_biases",
     .takes = {2, 3},
     .makes = 2,
     .infer = nothing,
     .work = work_update_choice_biases,
     .widening = by_optimizer},
};

}  // namespace

std::span<const OpInfo> bookkeeping_ops() { return rows; }

}  // namespace meshwright::program
