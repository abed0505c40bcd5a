#include "models/lower/body_builder.h"

#include <algorithm>
#include <limits>

#include "models/core/error.h"

namespace meshwright {

namespace {
std::size_t index(Stream stream) { return static_cast<std::size_t>(stream); }
}  // namespace

BodyBuilder::BodyBuilder(Program& program, int body) : program_(program), body_(body) {
  for (auto& row : waited_) row.fill(-1);
}

std::vector<BodyBuilder::Access>& BodyBuilder::accesses(int buffer) {
  const auto i = static_cast<std::size_t>(buffer);
  if (accesses_.size() <= i) accesses_.resize(std::max(i + 1, program_.memory.buffers.size()));
  return accesses_[i];
}

// Where a part lies depends on the rank: it may be anywhere in the buffer.
BodyBuilder::Access BodyBuilder::access_of(const Operand& operand) {
  Access access{operand.offset, operand.offset + operand.type.bytes(), -1, {}};
  if (operand.part_of != GroupKind::none)
    access.begin = 0, access.end = std::numeric_limits<std::int64_t>::max();
  access.reader.fill(-1);
  return access;
}

void BodyBuilder::depend_on_overlapping(Instruction& instruction, const Operand& operand,
                                        bool writes) {
  const Access wanted = access_of(operand);
  for (const Access& earlier : accesses(operand.buffer)) {
    if (earlier.begin >= wanted.end || wanted.begin >= earlier.end) continue;
    depend(instruction, earlier.writer);
    if (!writes) continue;
    for (int reader : earlier.reader) depend(instruction, reader);
  }
}

void BodyBuilder::note_read(const Operand& operand, Stream stream, int at) {
  Access read = access_of(operand);
  std::vector<Access>& all = accesses(operand.buffer);
  auto same = std::find_if(all.begin(), all.end(), [&](const Access& earlier) {
    return earlier.begin == read.begin && earlier.end == read.end;
  });
  if (same == all.end()) same = all.insert(all.end(), read);
  same->reader[index(stream)] = at;
}

void BodyBuilder::note_write(const Operand& operand, int at) {
  Access write = access_of(operand);
  write.writer = at;
  std::vector<Access>& all = accesses(operand.buffer);
  std::erase_if(all, [&](const Access& earlier) {
    return write.begin <= earlier.begin && earlier.end <= write.end;
  });
  all.push_back(write);
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

int BodyBuilder::emit(Instruction instruction) {
  const int at = size();
  const bool is_compute = instruction.stream == Stream::compute;
  if (is_compute) {
    for (int forced : forced_) depend(instruction, forced);
    forced_.clear();
  } else {
    depend(instruction, last_compute_);
  }
  for (const Operand& input : instruction.inputs) depend_on_overlapping(instruction, input, false);
  for (const Operand& output : instruction.outputs)
    depend_on_overlapping(instruction, output, true);
  if (is_compute)
    for (const Wait& wait : instruction.waits)
      if (wait.relation == Wait::Relation::same_task)
        joined(body().instructions[static_cast<std::size_t>(wait.instruction)].stream,
               wait.instruction, at);
  for (const Operand& input : instruction.inputs) {
    note_read(input, instruction.stream, at);
    touch(input, at);
  }
  for (const Operand& output : instruction.outputs) {
    note_write(output, at);
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
  const auto any_in = [&](Region region, const std::vector<Operand>& operands) {
    return std::any_of(operands.begin(), operands.end(), [&](const Operand& operand) {
      return program_.memory.buffers[static_cast<std::size_t>(operand.buffer)].region == region;
    });
  };
  for (int left : unjoined_) {
    const Instruction& instruction = body().instructions[static_cast<std::size_t>(left)];
    if (any_in(Region::task, instruction.inputs) || any_in(Region::task, instruction.outputs) ||
        (body().kind == Body::Kind::backward && any_in(Region::slot, instruction.outputs)))
      forced_.push_back(left);
  }
  if (forced_.empty()) return;
  Instruction join;  // does nothing but wait: the next task reuses the region
  join.op = Op::zero;
  emit(std::move(join));
}

}  // namespace meshwright
