#include "exec/backends/cuda/fused/fused_steps.h"

#include <algorithm>
#include <array>

#include "exec/backends/cuda/loss/loss_with_grad.h"
#include "exec/backends/cuda/tables.h"
#include "models/core/error.h"
#include "models/program/graph/op_table.h"

namespace meshwright::exec::cuda {

namespace {

constexpr std::size_t most_operands = 12;

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + fused_alignment - 1) / fused_alignment * fused_alignment;
}

bool has_own_memory(const Fusion& fusion) { return fusion.loop == Fusion::Loop::long_blocks; }

// A block of the fusion's rows: its first row, and the number of rows.
struct BlockRows {
  std::int64_t first = 0, count = 0;
};

// The types of a step's operands on a block of rows. Only the step on the first block overwrites
// gradients that the operation is to overwrite. Later blocks add.
class StepTypes {
 public:
  StepTypes(const Fusion& fusion, std::size_t step, const BlockRows& rows, const OpCall& call)
      : step_(fusion.steps[step]),
        overwrites_(rows.first == 0 ? overwrites_of_step(fusion, step, call.overwrites) : 0) {
    for (int id : step_.inputs) in_[inputs_++] = fusion.of_block(id, rows.count);
    // The loss scale, if there is one, is appended to the inputs of the whole operation. The step
    // that takes a loss scale gets it.
    if (info(step_.op).takes_loss_scale &&
        call.inputs.size() > static_cast<std::size_t>(fusion.inputs)) {
      in_[inputs_++] = call.inputs.back();
      takes_last_ = true;
    }
    for (int id : step_.outputs) out_[outputs_++] = fusion.of_block(id, rows.count);
  }
  bool takes_last() const { return takes_last_; }
  std::size_t inputs() const { return inputs_; }
  std::size_t outputs() const { return outputs_; }
  OpCall call() const {
    return {
        step_.op, step_.attributes, {in_.data(), inputs_}, {out_.data(), outputs_}, overwrites_};
  }

 private:
  const FusedStep& step_;
  std::uint32_t overwrites_;
  std::array<TensorType, most_operands> in_, out_;
  std::size_t inputs_ = 0, outputs_ = 0;
  bool takes_last_ = false;
};

const Row& row_of_step(const FusedStep& step) {
  const Row* row = row_of(step.op);
  MESHWRIGHT_CHECK(row != nullptr, "every step of a fusion is an operation of the backend");
  return *row;
}

// Finds the operands of one block of rows.
class Block {
 public:
  Block(const Fusion& fusion, const KernelCall& k, const BlockRows& rows)
      : fusion_(fusion), k_(k), rows_(rows) {
    if (has_own_memory(fusion)) {
      internal_ =
          static_cast<std::byte*>(k.operands.outputs[static_cast<std::size_t>(fusion.outputs) - 1]);
      scratch_ = k.context.workspace;
    } else {
      internal_ = k.workspace<std::byte>();
      scratch_ = internal_ + fusion.internal_bytes(rows.count);
    }
  }

  const Fusion& fusion() const { return fusion_; }
  const KernelCall& whole() const { return k_; }
  const BlockRows& rows() const { return rows_; }

  OpContext context() const {
    OpContext context = k_.context;
    context.first_row = rows_.first;
    context.whole_rows = fusion_.rows;
    context.workspace = scratch_;
    return context;
  }

  std::byte* address(int id) const {
    if (fusion_.is_internal(id)) {
      std::int64_t offset = 0;
      for (int before = fusion_.first_internal(); before < id; ++before)
        offset += aligned(fusion_.of_block(before, rows_.count).bytes());
      return internal_ + offset;
    }
    const std::size_t i = id, inputs = fusion_.inputs;
    const void* data = i < inputs ? k_.operands.inputs[i] : k_.operands.outputs[i - inputs];
    const std::int64_t skipped =
        fusion_.cut[i] ? fusion_.operands[i].bytes() / fusion_.rows * rows_.first : 0;
    return const_cast<std::byte*>(static_cast<const std::byte*>(data)) + skipped;
  }

 private:
  const Fusion& fusion_;
  const KernelCall& k_;
  BlockRows rows_;
  std::byte* internal_;
  void* scratch_;
};

// Holds the arguments of a step's kernel for a block of rows.
class StepCall {
 public:
  StepCall(const Block& block, std::size_t index)
      : types_(block.fusion(), index, block.rows(), block.whole().call),
        call_(types_.call()),
        operands_{{in_.data(), types_.inputs()}, {out_.data(), types_.outputs()}},
        context_(block.context()),
        kernel_{call_,
                operands_,
                context_,
                block.whole().device,
                block.whole().first_sequence,
                block.whole().stream} {
    const FusedStep& step = block.fusion().steps[index];
    std::size_t inputs = 0, outputs = 0;
    for (int id : step.inputs) in_[inputs++] = block.address(id);
    if (types_.takes_last()) in_[inputs] = block.whole().operands.inputs.back();
    for (int id : step.outputs) out_[outputs++] = block.address(id);
  }
  StepCall(const StepCall&) = delete;
  StepCall& operator=(const StepCall&) = delete;
  const KernelCall& kernel() const { return kernel_; }

 private:
  StepTypes types_;
  std::array<const void*, most_operands> in_{};
  std::array<void*, most_operands> out_{};
  OpCall call_;
  OpOperands operands_;
  OpContext context_;
  KernelCall kernel_;
};

// Runs a cross-entropy and its gradient in one kernel, if they are this step and the next one.
// Returns false, with nothing issued, if they are not or if there is no such kernel for them.
bool run_pair(const Block& block, std::size_t step) {
  const std::vector<FusedStep>& steps = block.fusion().steps;
  if (step + 1 == steps.size() || steps[step].op != Op::cross_entropy ||
      steps[step + 1].op != Op::cross_entropy_grad)
    return false;
  const StepCall loss(block, step), gradient(block, step + 1);
  return cross_entropy_with_grad(loss.kernel(), gradient.kernel());
}

void run_block(const Block& block) {
  const std::vector<FusedStep>& steps = block.fusion().steps;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (run_pair(block, i)) {
      ++i;
      continue;
    }
    const StepCall call(block, i);
    row_of_step(steps[i]).run(call.kernel());
  }
}

std::int64_t rows_at_once(const Fusion& fusion) {
  return has_own_memory(fusion) ? fusion.block_rows : fusion.rows;
}

}  // namespace

std::int64_t workspace_of_steps(const Fusion& fusion, const OpCall& call, const Device& device) {
  if (fusion.steps.empty()) return 0;
  std::int64_t most = 0;
  const std::int64_t whole = rows_at_once(fusion), rest = fusion.rows % whole;
  const bool several = fusion.rows > whole;
  for (const BlockRows& rows :
       {BlockRows{0, whole}, BlockRows{whole, several ? whole : 0}, BlockRows{whole, rest}})
    for (std::size_t i = 0; i < fusion.steps.size(); ++i) {
      if (rows.count == 0) continue;
      const StepTypes types(fusion, i, rows, call);
      most = std::max(most, workspace_of(row_of_step(fusion.steps[i]), types.call(), device));
    }
  return most + (has_own_memory(fusion) ? 0 : fusion.internal_bytes(fusion.rows));
}

void run_steps(const Fusion& fusion, const KernelCall& call) {
  const std::int64_t at_once = rows_at_once(fusion);
  for (std::int64_t first = 0; first < fusion.rows; first += at_once)
    run_block(Block(fusion, call, {first, std::min(at_once, fusion.rows - first)}));
}

}  // namespace meshwright::exec::cuda
