#include "sim/predict/pytorch_memory.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace meshwright::sim {

namespace {

using ClassBytes = std::array<std::int64_t, memory_class_count>;

std::int64_t& of_class(ClassBytes& bytes, MemoryClass cls) {
  return bytes[static_cast<std::size_t>(cls)];
}

std::int64_t sum_of(const ClassBytes& bytes) {
  std::int64_t sum = 0;
  for (const std::int64_t each : bytes) sum += each;
  return sum;
}

// The bytes that are live while the instructions of a body run, as changes before and after them.
class LiveBytes {
 public:
  explicit LiveBytes(std::size_t instructions) : changes_(instructions + 1) {}

  void add(const Buffer& buffer, int first, int last) {
    add(buffer.cls, buffer.bytes, first, last);
  }
  void add(MemoryClass cls, std::int64_t bytes, int first, int last) {
    const int end = static_cast<int>(changes_.size()) - 1;
    if (last < first || first >= end) return;
    of_class(changes_[static_cast<std::size_t>(first)], cls) += bytes;
    of_class(changes_[static_cast<std::size_t>(std::min(last + 1, end))], cls) -= bytes;
  }

  // Returns `always` and what is live in addition at the instruction with the largest sum.
  ClassBytes most(const ClassBytes& always) const {
    ClassBytes now = always, largest = always;
    for (const ClassBytes& change : changes_) {
      for (std::size_t cls = 0; cls < now.size(); ++cls) now[cls] += change[cls];
      if (sum_of(now) > sum_of(largest)) largest = now;
    }
    return largest;
  }

 private:
  std::vector<ClassBytes> changes_;
};

struct Uses {
  int first = -1, last = -1;
};

// Returns the first and last instruction of the body that names each buffer, or -1.
std::vector<Uses> uses_in(const Program& program, const Body& body) {
  std::vector<Uses> uses(program.memory.buffers.size());
  for (int i = 0; i < static_cast<int>(body.instructions.size()); ++i) {
    const Instruction& each = body.instructions[static_cast<std::size_t>(i)];
    for (const auto* operands : {&each.inputs, &each.outputs})
      for (const Operand& operand : *operands) {
        if (operand.buffer < 0) continue;
        Uses& use = uses[static_cast<std::size_t>(operand.buffer)];
        if (use.first < 0) use.first = i;
        use.last = i;
      }
  }
  return uses;
}

// Returns the buffers in which gradients of buckets lie.
std::set<int> gradient_buffers(const Program& program) {
  std::set<int> buffers;
  for (const Bucket& bucket : program.buckets)
    for (const Operand* each : {&bucket.gradients, &bucket.own_gradients})
      if (each->buffer >= 0) buffers.insert(each->buffer);
  return buffers;
}

// Adds the gradients of the backward, each from the instruction that first writes it.
void add_gradients(const Program& program, const Body& body, const std::set<int>& gradients,
                   LiveBytes& live) {
  std::set<std::pair<int, std::int64_t>> made;
  const int end = static_cast<int>(body.instructions.size()) - 1;
  for (int i = 0; i <= end; ++i)
    for (const Operand& output : body.instructions[static_cast<std::size_t>(i)].outputs)
      if (gradients.contains(output.buffer) && made.emplace(output.buffer, output.offset).second)
        live.add(MemoryClass::gradients,
                 std::min(output.type.bytes(),
                          program.memory.buffers[static_cast<std::size_t>(output.buffer)].bytes),
                 i, end);
}

bool is_on_fullest(const Program& program, const Buffer& buffer) {
  return buffer.region == Region::persistent ||
         (buffer.region == Region::owned && buffer.owner.includes(program.fullest));
}

// Returns the most that is live while a body runs. Forward and backward hold what is saved between
// them in slots: the forward from the instruction that makes it, the backward until the last one
// that uses it.
ClassBytes most_in(const Program& program, int number, const ClassBytes& always,
                   const std::set<int>& gradients) {
  const Body& body = program.bodies[static_cast<std::size_t>(number)];
  const int end = static_cast<int>(body.instructions.size()) - 1;
  const std::vector<Uses> uses = uses_in(program, body);
  LiveBytes live(body.instructions.size());
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const Buffer& buffer = program.memory.buffers[i];
    if (buffer.region == Region::task && buffer.body == number)
      live.add(buffer, buffer.first, buffer.last);
    if (buffer.region != Region::slot || uses[i].first < 0) continue;
    if (body.kind == Body::Kind::forward) live.add(buffer, uses[i].first, end);
    if (body.kind == Body::Kind::backward) live.add(buffer, 0, uses[i].last);
  }
  if (body.kind == Body::Kind::backward) add_gradients(program, body, gradients, live);
  return live.most(always);
}

// Returns the bytes of the first moments: what PyTorch's foreach AdamW needs while it updates.
std::int64_t bytes_of_update(const Program& program) {
  const StepSettings& training = program.settings->training;
  if (training.framework != Framework::transformers || training.optimizer != OptimizerKind::adamw)
    return 0;
  std::int64_t bytes = 0;
  for (const Bucket& bucket : program.buckets)
    if (!bucket.frozen && bucket.first_moment.buffer >= 0 && bucket.owner.includes(program.fullest))
      bytes += bucket.first_moment.type.bytes();
  return bytes;
}

}  // namespace

bool makes_gradients_anew(const StepSettings& training, int stages, int micro_batches,
                          bool has_ddp_buffers) {
  const bool drops_them = training.framework == Framework::transformers ||
                          training.framework == Framework::accelerate ||
                          training.framework == Framework::pytorch;
  return drops_them && stages == 1 && micro_batches == 1 && !has_ddp_buffers;
}

ClassBytes peak_in_pytorch(const Program& program) {
  const std::set<int> gradients = gradient_buffers(program);
  ClassBytes always{}, with_gradients{};
  for (std::size_t i = 0; i < program.memory.buffers.size(); ++i) {
    const Buffer& buffer = program.memory.buffers[i];
    if (!is_on_fullest(program, buffer)) continue;
    of_class(with_gradients, buffer.cls) += buffer.bytes;
    if (!gradients.contains(static_cast<int>(i))) of_class(always, buffer.cls) += buffer.bytes;
  }
  ClassBytes at_work = always, at_end = with_gradients;
  std::int64_t fullest = 0;  // without gradients: for how much the arena has places
  for (int i = 0; i < static_cast<int>(program.bodies.size()); ++i) {
    const bool is_end = program.bodies[static_cast<std::size_t>(i)].kind == Body::Kind::step_end;
    const ClassBytes here = most_in(program, i, is_end ? with_gradients : always, gradients);
    fullest = std::max(fullest, sum_of(most_in(program, i, with_gradients, {})));
    ClassBytes& most = is_end ? at_end : at_work;
    if (sum_of(here) > sum_of(most)) most = here;
  }
  // PyTorch's allocator leaves gaps between tensors too; the arena's are taken for them.
  of_class(at_work, MemoryClass::workspace) +=
      std::max<std::int64_t>(0, program.memory.arena_bytes - fullest);
  of_class(at_end, MemoryClass::communication) = 0;  // what was gathered is freed by then
  of_class(at_end, MemoryClass::optimizer) += bytes_of_update(program);
  return sum_of(at_end) > sum_of(at_work) ? at_end : at_work;
}

}  // namespace meshwright::sim
