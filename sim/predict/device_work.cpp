#include "sim/predict/device_work.h"

#include <algorithm>

#include "models/program/graph/op_table.h"

namespace meshwright::sim {

namespace {

constexpr std::array<std::string_view, device_work_count> names = {
    "matrix products", "attention", "other kernels", "recomputation", "optimizer"};

DeviceWork work_of(Kernel::Kind kind) {
  return kind == Kernel::Kind::attention ? DeviceWork::attention
         : kind == Kernel::Kind::memory  ? DeviceWork::other
                                         : DeviceWork::products;
}

}  // namespace

DeviceWork work_of_kernels(const Instruction& instruction, const StepSettings& training) {
  std::vector<TensorType> inputs, outputs;
  for (const Operand& each : instruction.inputs) inputs.push_back(each.type);
  for (const Operand& each : instruction.outputs) outputs.push_back(each.type);
  std::vector<Kernel> kernels;
  info(instruction.op)
      .work({instruction.op, instruction.attributes, inputs, outputs}, training.compiler, kernels);
  for (const Kernel& kernel : kernels)
    if (const DeviceWork work = work_of(kernel.kind); work != DeviceWork::other) return work;
  return DeviceWork::other;
}

DeviceWork work_of(const Instruction& instruction, const Body& body, const StepSettings& training) {
  if (body.kind == Body::Kind::step_begin || body.kind == Body::Kind::step_end ||
      instruction.kind == InstructionKind::optimizer_step)
    return DeviceWork::optimizer;
  if (instruction.phase == Phase::recompute) return DeviceWork::recomputation;
  return instruction.kind == InstructionKind::compute ? work_of_kernels(instruction, training)
                                                      : DeviceWork::other;
}

SegmentTimes::SegmentTimes(const Program& program, const Cluster& cluster)
    : program_(program), cost_(cluster, program.settings->training) {}

const SegmentTimes::Shares& SegmentTimes::shares_of(const Instruction& segment) {
  const auto [found, is_new] = shares_.try_emplace(&segment);
  if (!is_new) return found->second;
  const std::array<Seconds, 4> times = cost_.times_by_kind(segment, program_);
  double sum = 0;
  for (const Seconds& each : times) sum += each.value;
  for (std::size_t i = 0; i < times.size(); ++i)
    found->second[static_cast<std::size_t>(work_of(static_cast<Kernel::Kind>(i)))] +=
        sum > 0 ? times[i].value / sum : 0;
  return found->second;
}

std::string_view name_of(DeviceWork work) { return names[static_cast<std::size_t>(work)]; }

}  // namespace meshwright::sim
