#include "exec/runtime/non_finite.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <tuple>
#include <vector>

#include "exec/runtime/host_view.h"
#include "models/program/describe.h"

namespace meshwright::exec {

namespace {

template <typename T>
bool finite_values(const void* data, std::int64_t count) {
  const T* values = static_cast<const T*>(data);
  return std::all_of(values, values + count, [](T value) { return std::isfinite(value); });
}

// A 16-bit value is infinite or no number when all bits of its exponent are set.
bool finite_bits(const void* data, std::int64_t count, std::uint16_t exponent) {
  const auto* values = static_cast<const std::uint16_t*>(data);
  return std::all_of(values, values + count,
                     [=](std::uint16_t value) { return (value & exponent) != exponent; });
}

// Returns a key that sorts findings by their place in a step. The clock does not matter: which rank
// found one first says nothing.
auto order_of(const NonFiniteSearch::Finding& finding) {
  return std::tuple(!finding.found, !finding.begins_here, finding.phase, finding.micro_batch_index,
                    finding.virtual_stage, finding.instruction, finding.rank);
}

// Returns whether results of `op` hold maxima over a rank's part of the vocabulary. Such a maximum
// is -infinity if the part is padding only.
bool holds_maxima(Op op) {
  return op == Op::cross_entropy_stats || op == Op::cross_entropy_combine;
}

}  // namespace

bool all_finite(const void* data, const TensorType& type) {
  const std::int64_t count = type.shape.elements();
  switch (type.dtype) {
    case Dtype::f64:
      return finite_values<double>(data, count);
    case Dtype::f32:
      return finite_values<float>(data, count);
    case Dtype::f16:
      return finite_bits(data, count, 0x7c00);
    case Dtype::bf16:
      return finite_bits(data, count, 0x7f80);
    case Dtype::e4m3:  // whatever was not finite became NaN, which its scale tells
    case Dtype::e5m2:
    case Dtype::e2m1:
    case Dtype::i32:
    case Dtype::i16:
    case Dtype::block8:
    case Dtype::block8u:
    case Dtype::nf4:
    case Dtype::nf4_double:
    case Dtype::int4_32:
    case Dtype::int4_64:
    case Dtype::int4_128:
    case Dtype::int4_256:
      return true;
  }
  return true;
}

NonFiniteSearch::NonFiniteSearch(const Program& program, const Arena& memory, int rank)
    : program_(program), memory_(memory), rank_(rank) {
  for (const Buffer& buffer : program.memory.buffers)
    holds_parameters_.push_back(buffer.cls == MemoryClass::parameters ? 1 : 0);
  for (const Body& body : program.bodies)
    for (const Instruction& instruction : body.instructions)
      if (instruction.kind == InstructionKind::all_gather &&
          holds_parameters_[instruction.inputs[0].buffer])
        holds_parameters_[instruction.outputs[0].buffer] = 1;
}

bool NonFiniteSearch::finite(const Instruction& instruction, const Operand& operand,
                             int slot) const {
  if (operand.buffer < 0) return true;
  HostView<const std::byte> bytes(
      memory_.backend(), memory_.address<const std::byte>(operand, slot), operand.type.bytes());
  const void* data = bytes.data();
  if (holds_maxima(instruction.op) && operand.type.dtype == Dtype::f32) {
    const auto* values = static_cast<const float*>(data);
    return std::all_of(values, values + operand.type.shape.elements(),
                       [](float value) { return value < std::numeric_limits<float>::infinity(); });
  }
  return all_finite(data, operand.type);
}

// Checks what the instruction reads. Sums are in persistent buffers, so their previous values are
// read too, unless they are overwritten.
void NonFiniteSearch::before(const Instruction& instruction, const Task& task) {
  if (instruction.kind != InstructionKind::compute || (first_.found && first_.begins_here)) return;
  read_finite_ = parameters_finite_ = true;
  for (const Operand& operand : instruction.inputs)
    if (!finite(instruction, operand, task.slot))
      (holds_parameters_[operand.buffer] ? parameters_finite_ : read_finite_) = false;
  if (instruction.op == Op::zero) return;
  std::uint32_t overwrites = overwrites_in(instruction, task);
  for (const Operand& operand : instruction.outputs) {
    const bool is_overwritten = (overwrites & 1U) != 0;
    overwrites >>= 1U;
    if (operand.buffer >= 0 && !is_overwritten &&
        program_.memory.buffers[operand.buffer].region == Region::persistent)
      read_finite_ = read_finite_ && finite(instruction, operand, task.slot);
  }
}

void NonFiniteSearch::after(const Instruction& instruction, const Task& task) {
  // A value that came from other ranks became non-finite there.
  if (instruction.kind != InstructionKind::compute) return;
  if (first_.found && (first_.begins_here || !read_finite_)) return;
  const bool good = std::ranges::all_of(
      instruction.outputs, [&](const Operand& out) { return finite(instruction, out, task.slot); });
  if (good) return;
  first_.found = true;
  first_.begins_here = read_finite_;
  first_.phase = instruction.phase == Phase::backward;
  first_.micro_batch_index = task.micro_batch_index;
  first_.virtual_stage = task.chunk;
  const std::vector<Instruction>& body = program_.bodies[task.body].instructions;
  first_.instruction = static_cast<int>(&instruction - body.data());
  first_.rank = rank_;
  std::string text = describe(program_, task, instruction) + ", on rank " + std::to_string(rank_) +
                     " (stage " + std::to_string(program_.stage) + ")";
  if (!parameters_finite_) text += "; " + wrong_parameter() + " holds such a value";
  std::strncpy(first_.text.data(), text.c_str(), first_.text.size() - 1);
}

std::string NonFiniteSearch::wrong_parameter() const {
  for (const StageParameter& member : program_.parameters) {
    const HeldWeights held = memory_.weights(member);
    const bool good = as_exact(held.data.type, [&](auto number) {
      using Real = decltype(number);
      StateView<const Real> values(memory_.backend(), held.data, held.count);
      return finite_values<Real>(values.data(), held.count);
    });
    if (!good) return "parameter " + member.parameter.name;
  }
  return "a parameter";
}

NonFiniteSearch::Finding NonFiniteSearch::first_of_all(Communicator& everybody) const {
  Finding own = first_;
  own.virtual_stage = program_.layout.virtual_stage(program_.stage, first_.virtual_stage);
  if (own.phase == 1) own.virtual_stage = -own.virtual_stage;  // backward: the last stage begins
  std::vector<Finding> all(everybody.size());
  everybody.all_gather(&own, all.data(), sizeof own);
  return *std::ranges::min_element(
      all, [](const Finding& a, const Finding& b) { return order_of(a) < order_of(b); });
}

}  // namespace meshwright::exec
