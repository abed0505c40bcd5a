#include "sim/validate/framework_keeps.h"

#include <algorithm>
#include <optional>

namespace meshwright::sim {

namespace {

bool is_last(const Program& program) { return program.stage == program.layout.stages - 1; }

std::int64_t buffers_of_oneflow(const Program& program) {
  if (program.layout.stages == 1 || is_last(program)) return 0;
  std::int64_t bytes = 0;
  for (const SlotRegion& chunk : program.memory.slots)
    bytes += chunk.stride * std::max(0, 2 * program.layout.stages - chunk.slots);
  return bytes;
}

std::int64_t reduced_by_alpa(const Program& program, const StageMemory& memory) {
  if (program.settings->degrees.data == 1) return 0;
  std::int64_t gradients = 0;
  for (const Bucket& bucket : program.buckets) gradients += bucket.gradients.type.bytes();
  const auto of = [&](MemoryClass which) {
    return memory.class_bytes[static_cast<std::size_t>(which)];
  };
  const std::int64_t gone = of(MemoryClass::activations) + of(MemoryClass::workspace);
  return std::max<std::int64_t>(0, gradients - gone);
}

// Returns the bytes that bodies of this kind send or receive for one micro-batch.
std::int64_t message_bytes(const Program& program, InstructionKind kind, Body::Kind body_kind) {
  std::int64_t bytes = 0;
  for (const Body& body : program.bodies)
    for (const Instruction& each : body.instructions)
      if (body.kind == body_kind && each.kind == kind)
        bytes += (kind == InstructionKind::send ? each.inputs : each.outputs)[0].type.bytes();
  return bytes;
}

// Returns the type of one micro-batch's logits, or none if this stage does not compute the loss.
std::optional<TensorType> logits_of(const Program& program) {
  for (const Body& body : program.bodies)
    for (const Instruction& each : body.instructions)
      if (body.kind == Body::Kind::forward && each.kind == InstructionKind::compute &&
          (each.op == Op::log_softmax || each.op == Op::cross_entropy ||
           each.op == Op::cross_entropy_stats))
        return each.inputs[0].type;
  return std::nullopt;
}

std::int64_t logits_of_megatron(const Program& program) {
  const std::optional<TensorType> logits = logits_of(program);
  if (!logits || logits->dtype == Dtype::f32) return 0;
  return logits->shape.elements() * static_cast<std::int64_t>(bytes_of(Dtype::f32));
}

std::int64_t messages_of_pytorch(const Program& program) {
  if (program.layout.stages == 1) return 0;
  const std::optional<TensorType> logits = logits_of(program);
  const std::int64_t outputs = message_bytes(program, InstructionKind::send, Body::Kind::forward) +
                               (logits ? logits->bytes() : 0);
  const std::int64_t gradients =
      message_bytes(program, InstructionKind::recv, Body::Kind::backward);
  const std::int64_t inputs = message_bytes(program, InstructionKind::recv, Body::Kind::forward);
  int in_flight = 0;
  for (const SlotRegion& chunk : program.memory.slots) in_flight = std::max(in_flight, chunk.slots);
  // Micro-batches in flight hold their inputs anyway, and one of them holds its output and its
  // gradient.
  return (outputs + gradients) * (program.micro_batches - 1) +
         inputs * std::max(0, program.micro_batches - in_flight);
}

}  // namespace

std::int64_t peak_with_framework(const std::string& title, const Compiled& compiled,
                                 const Prediction& prediction) {
  const auto is_of = [&](const char* name) { return title.find(name) != std::string::npos; };
  const bool oneflow = is_of("OneFlow"), alpa = is_of("Alpa"), megatron = is_of("Megatron");
  std::int64_t peak = 0;
  for (const StageMemory& memory : prediction.memory) {
    const Program& program = compiled.stages[memory.stage];
    std::int64_t kept = 0;
    if (oneflow) kept = buffers_of_oneflow(program);
    if (alpa) kept = reduced_by_alpa(program, memory);
    if (megatron) kept = logits_of_megatron(program);
    if (program.settings->zero_stage == 3) kept = messages_of_pytorch(program);
    peak = std::max(peak, memory.peak_bytes + kept);
  }
  return peak;
}

}  // namespace meshwright::sim
