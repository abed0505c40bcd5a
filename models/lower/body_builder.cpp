#include "models/lower/body_builder.h"

#include <algorithm>

#include "models/core/error.h"

namespace meshwright {

namespace {
std::size_t index(Stream stream) { return static_cast<std::size_t>(stream); }
}  // namespace

BodyBuilder::BodyBuilder(Program& program, int body) : program_(program), body_(body) {
  for (auto& row : waited_) row.fill(-1);
}

BodyBuilder::Access& BodyBuilder::access(int buffer) {
  const auto i = static_cast<std::size_t>(buffer);
  if (access_.size() <= i) access_.resize(std::max(i + 1, program_.memory.buffers.size()));
  return access_[i];
}

void BodyBuilder::depend(Instruction& instruction, int on) {
  if (on < 0) return;
  const Stream other = body().instructions[static_cast<std::size_t>(on)].stream;
  if (other == instruction.stream) return;  // list order
  int& waited = waited_[index(instruction.stream)][index(other)];
  if (waited >= on) return;
  waited = on;
  instruction.waits.push_back({Wait::Relation::same_task, -1, on});
}

void BodyBuilder::touch(const Operand& operand, int at) {
  Buffer& buffer = program_.memory.buffers[static_cast<std::size_t>(operand.buffer)];
  if (buffer.region != Region::task) return;
  if (buffer.body < 0) {
    buffer.body = body_;
    buffer.first = at;
  }
  MESHWRIGHT_CHECK(buffer.body == body_, "a task buffer lives in one body");
  buffer.last = std::max(buffer.last, at);
}

void BodyBuilder::joined(Stream stream, int up_to, int by) {
  std::erase_if(unjoined_, [&](int candidate) {
    const Instruction& done = body().instructions[static_cast<std::size_t>(candidate)];
    if (done.stream != stream || candidate > up_to) return false;
    for (const Operand& operand : done.inputs) touch(operand, by);
    for (const Operand& operand : done.outputs) touch(operand, by);
    return true;
  });
}

bool BodyBuilder::any_in(Region region, const std::vector<Operand>& operands) const {
  return std::ranges::any_of(operands, [&](const Operand& operand) {
    return program_.memory.buffers[static_cast<std::size_t>(operand.buffer)].region == region;
  });
}

bool BodyBuilder::in_task_region(const Instruction& instruction) const {
  return any_in(Region::task, instruction.inputs) || any_in(Region::task, instruction.outputs);
}

int BodyBuilder::emit(Instruction instruction) {
  const int at = size();
  const bool is_compute = instruction.stream == Stream::compute;
  if (is_compute) {
    for (int forced : forced_) depend(instruction, forced);
    forced_.clear();
  } else if (last_compute_ >= 0) {
    depend(instruction, last_compute_);
  } else if (in_task_region(instruction)) {  // which the task before still computes in
    instruction.waits.push_back({Wait::Relation::previous_task, -1, -1});
  }
  for (const Operand& input : instruction.inputs) depend(instruction, access(input.buffer).writer);
  for (const Operand& output : instruction.outputs) {
    Access& used = access(output.buffer);
    depend(instruction, used.writer);
    for (int reader : used.reader) depend(instruction, reader);
  }
  if (is_compute)
    for (const Wait& wait : instruction.waits)
      if (wait.relation == Wait::Relation::same_task)
        joined(body().instructions[static_cast<std::size_t>(wait.instruction)].stream,
               wait.instruction, at);
  for (const Operand& input : instruction.inputs) {
    access(input.buffer).reader[index(instruction.stream)] = at;
    touch(input, at);
  }
  for (const Operand& output : instruction.outputs) {
    access(output.buffer).writer = at;
    touch(output, at);
  }
  if (is_compute)
    last_compute_ = at;
  else
    unjoined_.push_back(at);
  body().instructions.push_back(std::move(instruction));
  return at;
}

void BodyBuilder::finish() {
  for (int left : unjoined_) {
    const Instruction& instruction = body().instructions[static_cast<std::size_t>(left)];
    if (in_task_region(instruction) ||
        (body().kind == Body::Kind::backward && any_in(Region::slot, instruction.outputs)))
      forced_.push_back(left);
  }
  if (forced_.empty()) return;
  Instruction join;  // does nothing but wait: the next task reuses the region
  join.op = Op::zero;
  emit(std::move(join));
}

}  // namespace meshwright
