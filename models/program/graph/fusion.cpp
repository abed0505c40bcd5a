#include "models/program/graph/fusion.h"

#include <algorithm>

#include "models/core/round_up.h"
#include "models/program/graph/op_table.h"
#include "models/program/graph/widen.h"

namespace meshwright::program {

namespace {

// Returns the scratch memory, in bytes, in which the steps of a fused operation widen their
// operands to fp32, for a block of `block` rows. Steps run one after another, so only the step that
// needs most counts.
std::int64_t widened_by_steps(const Fusion& fusion, std::int64_t block) {
  std::int64_t most = 0;
  std::vector<TensorType> inputs, outputs;
  for (const FusedStep& step : fusion.steps) {
    inputs.clear(), outputs.clear();
    for (int id : step.inputs) inputs.push_back(fusion.of_block(id, block));
    for (int id : step.outputs) outputs.push_back(fusion.of_block(id, block));
    most = std::max(most, widened_bytes({step.op, step.attributes, inputs, outputs}));
  }
  return most;
}

std::int64_t widened_by_product(const Fusion& fusion) {
  Fusion alone = fusion;
  alone.steps.resize(1);
  return widened_by_steps(alone, fusion.rows);
}

}  // namespace

TensorType Fusion::of_block(int operand, std::int64_t block) const {
  TensorType type = operands[operand];
  if (cut[operand]) type.shape[0] = block;
  return type;
}

std::int64_t Fusion::internal_bytes(std::int64_t block) const {
  std::int64_t bytes = 0;
  for (int id = first_internal(); id < static_cast<int>(operands.size()); ++id)
    bytes += round_up(of_block(id, block).bytes(), fused_alignment);
  return bytes;
}

std::uint32_t overwrites_of_step(const Fusion& fusion, std::size_t step, std::uint32_t of_fusion) {
  if (of_fusion == 0) return 0;
  const auto adds_to = [](const FusedStep& each, int id) {
    return std::ranges::find(each.outputs, id) != each.outputs.end();
  };
  std::uint32_t bits = 0, bit = 1;
  for (const int id : fusion.steps[step].outputs) {
    const bool first =
        std::none_of(fusion.steps.begin(), fusion.steps.begin() + static_cast<std::ptrdiff_t>(step),
                     [&](const FusedStep& before) { return adds_to(before, id); });
    if (fusion.is_sum(id) && first && (of_fusion >> (id - fusion.inputs) & 1U) != 0) bits |= bit;
    bit <<= 1U;
  }
  return bits;
}

// In Loop::product_first, the first step cannot overwrite a sum, because its result is summed apart
// from the steps that follow.
bool can_overwrite(Op op, const Attributes& attributes, std::size_t output) {
  if (op != Op::fused) return info(op).overwrites_sums;
  const Fusion& fusion = *attributes.fusion;
  const std::uint32_t wanted = std::uint32_t{1} << output;
  for (std::size_t i = 0; i < fusion.steps.size(); ++i)
    if (overwrites_of_step(fusion, i, wanted) != 0)
      return info(fusion.steps[i].op).overwrites_sums &&
             (i > 0 || fusion.loop != Fusion::Loop::product_first);
  return false;
}

std::int64_t block_bytes(const Fusion& fusion, std::int64_t block) {
  if (fusion.loop != Fusion::Loop::product_first)
    return fusion.internal_bytes(block) + widened_by_steps(fusion, block);
  Fusion rest = fusion;
  rest.steps.erase(rest.steps.begin());
  return fusion.internal_bytes(block) + widened_by_steps(rest, block);
}

int fused_strips(const Fusion& fusion) {
  constexpr std::int64_t most = 16;
  const std::int64_t blocks = (fusion.rows + fusion.block_rows - 1) / fusion.block_rows;
  return static_cast<int>(std::min(most, blocks));
}

std::int64_t scratch_bytes(const OpCall& call) {
  if (call.op != Op::fused) return widened_bytes(call);
  const Fusion& fusion = *call.attributes.fusion;
  if (fusion.loop == Fusion::Loop::long_blocks) return widened_by_steps(fusion, fusion.block_rows);
  if (fusion.loop == Fusion::Loop::products) return widened_by_steps(fusion, fusion.rows);
  std::int64_t sums = 0;
  for (int id = fusion.inputs + fusion.outputs; id < fusion.first_internal(); ++id)
    sums += round_up(fusion.operands[static_cast<std::size_t>(id)].bytes(), fused_alignment);
  sums *= fused_strips(fusion);
  return fusion.loop == Fusion::Loop::product_first ? std::max(sums, widened_by_product(fusion))
                                                    : sums;
}

std::string name_of(const Fusion& fusion) {
  std::string name;
  const FusedStep* before = nullptr;
  for (const FusedStep& step : fusion.steps) {
    // Consecutive steps with one weight are one matmul whose rows come in parts, so the name
    // contains it once.
    const bool goes_on = before != nullptr && fusion.loop == Fusion::Loop::products &&
                         step.op == before->op && step.inputs[1] == before->inputs[1];
    if (!goes_on) name += (name.empty() ? "" : " + ") + std::string(info(step.op).name);
    before = &step;
  }
  return name;
}

}  // namespace meshwright::program
