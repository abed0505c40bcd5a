#include "exec/runtime/operations.h"

#include <algorithm>
#include <array>

#include "exec/runtime/instruction_kinds.h"

namespace meshwright::exec {

void OperationRunner::run(const Instruction& instruction, const Attributes& attributes,
                          const Task& task, std::int64_t first_sequence,
                          std::int64_t step_position) {
  if (instruction.op == Op::sum_of_squares) return sum_of_squares(instruction, task);
  if (instruction.bucket >= 0 && is_compute(instruction, {Op::amax, Op::quantize}))
    return look_at_parameters(instruction, task);
  input_types_.clear(), output_types_.clear(), inputs_.clear(), outputs_.clear();
  for (const Operand& operand : instruction.inputs) {
    input_types_.push_back(operand.type);
    inputs_.push_back(rank_.memory.address(operand, task.slot, task.window));
  }
  for (const Operand& operand : instruction.outputs) {
    output_types_.push_back(operand.type);
    outputs_.push_back(rank_.memory.address(operand, task.slot, task.window));
  }
  OpContext context = rank_.op_context();
  context.context_rank = rank_.context_rank();
  context.first_sequence = first_sequence;
  context.step_position = step_position;
  rank_.backend.run(
      {instruction.op, attributes, input_types_, output_types_, overwrites_in(instruction, task)},
      {inputs_, outputs_}, context);
}

// Sums the squares of this rank's part of the bucket: only elements that belong to a parameter, and
// each once over all ranks. It runs one operation for each contiguous range, because a GPU takes
// longer to start such an operation than to compute it.
void OperationRunner::sum_of_squares(const Instruction& instruction, const Task& task) {
  const Dtype dtype = instruction.inputs[0].type.dtype;
  const auto* gradients = rank_.memory.address<const std::byte>(instruction.inputs[0], task.slot);
  const TensorType sum_type = instruction.outputs[0].type;
  void* sum = rank_.memory.address(instruction.outputs[0], task.slot);
  for (const BucketParts::Run& run : parts_.counted[instruction.bucket]) {
    const TensorType type{Shape{run.count}, dtype};
    const void* data = gradients + run.begin * bytes_of(dtype);
    rank_.backend.run({Op::sum_of_squares, instruction.attributes, {&type, 1}, {&sum_type, 1}},
                      {{&data, 1}, {&sum, 1}}, rank_.op_context());
  }
}

// Computes, for each parameter of a bucket, its largest magnitude (amax), or its bits and scale
// (quantize). Only elements in this rank's own part count, and there may be none.
void OperationRunner::look_at_parameters(const Instruction& instruction, const Task& task) {
  const Bucket& bucket = rank_.program.buckets[instruction.bucket];
  const std::int64_t begin = rank_.memory.own_begin(bucket), end = begin + bucket.shard_elements;
  const bool rounds = instruction.op == Op::quantize;
  const auto address = [&](const Operand& operand, std::int64_t element) {
    return rank_.memory.address<std::byte>(operand, task.slot) +
           element * bytes_of(operand.type.dtype);
  };
  for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
    const StageParameter& member = rank_.program.parameters[bucket.parameters[i]];
    const std::int64_t last = member.offset + member.parameter.shape.elements();
    const std::int64_t from = std::clamp(member.offset, begin, end);
    const std::int64_t count = std::max<std::int64_t>(0, std::min(last, end) - from);
    const auto value = static_cast<std::int64_t>(i);
    constexpr std::int64_t width = 16;  // elements of a kernel's vector; it divides parts
    const Shape part{count / width, width};
    const TensorType one{Shape{1}, Dtype::f32};
    const std::array<TensorType, 2> in = {TensorType{part, instruction.inputs[0].type.dtype}, one};
    const std::array<const void*, 2> inputs = {
        address(instruction.inputs[0], from - begin),
        rounds ? address(instruction.inputs[1], value) : nullptr};
    std::array<TensorType, 2> out = {one};
    std::array<void*, 2> outputs = {address(instruction.outputs[0], rounds ? from - begin : value)};
    if (rounds) {
      out = {TensorType{part, instruction.attributes.made}, TensorType{Shape{1, 1}, Dtype::f32}};
      outputs[1] = address(instruction.outputs[1], value);
    }
    const std::size_t operands = rounds ? 2 : 1;
    rank_.backend.run(
        {instruction.op, instruction.attributes, {in.data(), operands}, {out.data(), operands}},
        {{inputs.data(), operands}, {outputs.data(), operands}}, rank_.op_context());
  }
}

}  // namespace meshwright::exec
