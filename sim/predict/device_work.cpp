#include "sim/predict/device_work.h"

#include <array>

#include "models/program/graph/op_table.h"

namespace meshwright::sim {

namespace {

constexpr std::array<std::string_view, device_work_count> names = {
    "matrix products", "attention", "other kernels", "recomputation", "optimizer"};

DeviceWork work_of(const Instruction& instruction, const Body& body, const StepSettings& training) {
  if (body.kind == Body::Kind::step_begin || body.kind == Body::Kind::step_end ||
      instruction.kind == InstructionKind::optimizer_step)
    return DeviceWork::optimizer;
  if (instruction.phase == Phase::recompute) return DeviceWork::recomputation;
  return instruction.kind == InstructionKind::compute ? work_of_kernels(instruction, training)
                                                      : DeviceWork::other;
}

}  // namespace

DeviceWork work_of_kernels(const Instruction& instruction, const StepSettings& training) {
  std::vector<TensorType> inputs, outputs;
  for (const Operand& each : instruction.inputs) inputs.push_back(each.type);
  for (const Operand& each : instruction.outputs) outputs.push_back(each.type);
  std::vector<Kernel> kernels;
  info(instruction.op)
      .work({instruction.op, instruction.attributes, inputs, outputs}, training.compiler, kernels);
  for (const Kernel& kernel : kernels) {
    if (kernel.kind == Kernel::Kind::attention) return DeviceWork::attention;
    if (kernel.kind != Kernel::Kind::memory) return DeviceWork::products;
  }
  return DeviceWork::other;
}

std::string_view name_of(DeviceWork work) { return names[static_cast<std::size_t>(work)]; }

DeviceWorks::DeviceWorks(const Program& program) : program_(program) {
  for (const Body& body : program.bodies) known_.emplace_back(body.instructions.size(), -1);
}

DeviceWork DeviceWorks::of(const TimelineEntry& entry) {
  const std::size_t b = program_.tasks[entry.task].body;
  const Body& body = program_.bodies[b];
  std::int8_t& known = known_[b][entry.instruction];
  if (known < 0)
    known = static_cast<std::int8_t>(
        work_of(body.instructions[entry.instruction], body, program_.settings->training));
  return static_cast<DeviceWork>(known);
}

}  // namespace meshwright::sim
