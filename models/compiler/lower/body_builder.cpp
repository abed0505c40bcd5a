#include "models/compiler/lower/body_builder.h"

#include <algorithm>
#include <limits>

#include "models/core/error.h"

namespace meshwright::compiler {

namespace {

// The end of an access whose offset in its buffer is unknown, so that it may be anywhere.
constexpr std::int64_t somewhere = std::numeric_limits<std::int64_t>::max();

std::size_t index(Stream stream) { return static_cast<std::size_t>(stream); }

}  // namespace

BodyBuilder::BodyBuilder(Program& program, int number, Body::Kind kind, int chunk)
    : program_(program), body_(number) {
  body() = {kind, chunk, {}};
  for (auto& row : waited_) row.fill(-1);
}

template <typename Visit>
void BodyBuilder::Accesses::visit_overlapping(const Access& wanted, const Visit& visit) const {
  const auto overlaps = [&](const Access& access) {
    return access.begin < wanted.end && wanted.begin < access.end;
  };
  if (!many) {
    for (const Access& access : few)
      if (overlaps(access)) visit(access);
    return;
  }
  std::vector<const Access*> found;
  for (const Access& access : few)
    if (overlaps(access)) found.push_back(&access);
  auto it = many->by_begin.upper_bound(wanted.begin - many->longest);
  for (const auto end = many->by_begin.lower_bound(wanted.end); it != end; ++it)
    if (overlaps(it->second)) found.push_back(&it->second);
  std::ranges::sort(found, {}, &Access::number);
  for (const Access* access : found) visit(*access);
}

BodyBuilder::Access& BodyBuilder::Accesses::add(Access access) {
  constexpr std::size_t most = 32;
  if (many) access.number = many->made++;
  if (access.end == somewhere || (!many && few.size() < most)) return few.emplace_back(access);
  const auto add_to_many = [&](const Access& each) -> Access& {
    many->longest = std::max(many->longest, each.end - each.begin);
    return many->by_begin.emplace(each.begin, each)->second;
  };
  if (!many) {
    many = std::make_unique<Many>();
    for (Access& each : few) each.number = many->made++;
    access.number = many->made++;
    std::erase_if(few, [&](const Access& each) {
      if (each.end != somewhere) add_to_many(each);
      return each.end != somewhere;
    });
  }
  return add_to_many(access);
}

BodyBuilder::Access& BodyBuilder::Accesses::find_or_add(const Access& wanted) {
  for (Access& access : few)
    if (access.begin == wanted.begin && access.end == wanted.end) return access;
  if (many) {
    const auto [first, last] = many->by_begin.equal_range(wanted.begin);
    for (auto it = first; it != last; ++it)
      if (it->second.end == wanted.end) return it->second;
  }
  return add(wanted);
}

void BodyBuilder::Accesses::erase_within(const Access& written) {
  std::erase_if(few, [&](const Access& earlier) {
    return written.begin <= earlier.begin && earlier.end <= written.end;
  });
  if (!many) return;
  const auto end = many->by_begin.upper_bound(written.end);
  for (auto it = many->by_begin.lower_bound(written.begin); it != end;)
    it = it->second.end <= written.end ? many->by_begin.erase(it) : std::next(it);
}

BodyBuilder::Accesses& BodyBuilder::accesses(int buffer) {
  const auto i = static_cast<std::size_t>(buffer);
  if (accesses_.size() <= i) accesses_.resize(std::max(i + 1, program_.memory.buffers.size()));
  return accesses_[i];
}

// Returns which bytes of its buffer an operand may access, without readers and writer yet. The
// offset of a rank's part depends on the rank, so a part may be anywhere in the buffer.
BodyBuilder::Access BodyBuilder::access_of(const Operand& operand) {
  Access access{operand.offset, operand.offset + operand.type.bytes(), -1, {}, 0};
  if (operand.part_of != GroupKind::none) access.begin = 0, access.end = somewhere;
  access.reader.fill(-1);
  return access;
}

void BodyBuilder::depend_on_overlapping(Instruction& instruction, const Operand& operand,
                                        bool writes) {
  const Access wanted = access_of(operand);
  accesses(operand.buffer).visit_overlapping(wanted, [&](const Access& earlier) {
    depend(instruction, earlier.writer);
    if (!writes) return;
    for (int reader : earlier.reader) depend(instruction, reader);
  });
}

void BodyBuilder::note_read(const Operand& operand, Stream stream, int at) {
  accesses(operand.buffer).find_or_add(access_of(operand)).reader[index(stream)] = at;
}

void BodyBuilder::note_write(const Operand& operand, int at) {
  Access write = access_of(operand);
  write.writer = at;
  Accesses& all = accesses(operand.buffer);
  all.erase_within(write);
  all.add(write);
}

void BodyBuilder::depend(Instruction& instruction, int on) {
  if (on < 0) return;
  const Stream other = body().instructions[static_cast<std::size_t>(on)].stream;
  if (other == instruction.stream) return;  // the order of the list suffices
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
  } else if (in_task_region(instruction)) {  // the task before may still compute in this region
    instruction.waits.push_back({Wait::Relation::previous_task, -1, -1});
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
  // A forward body may receive a tensor that only its backward body uses, for a head whose loss is
  // fused.
  const bool for_later = body().kind == Body::Kind::forward || body().kind == Body::Kind::backward;
  for (int left : unjoined_) {
    const Instruction& instruction = body().instructions[static_cast<std::size_t>(left)];
    if (in_task_region(instruction) || (for_later && any_in(Region::slot, instruction.outputs)))
      forced_.push_back(left);
  }
  if (forced_.empty()) return;
  Instruction join;  // only waits, because the next task reuses the region
  join.op = Op::zero;
  emit(std::move(join));
}

}  // namespace meshwright::compiler
