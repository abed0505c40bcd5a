#include "models/compiler/lower/first_sums.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "models/program/graph/op_call.h"

namespace meshwright::compiler {

namespace {

// The least bytes between two parts of a buffer that are cleared separately. A shorter range
// between them is cleared with them, because each part is one more operation of a device.
constexpr std::int64_t shortest_gap = 4 << 10;

// Holds disjoint parts [begin, end) of a buffer, in bytes.
class Parts {
 public:
  bool overlap(std::int64_t begin, std::int64_t end) const {
    const auto after = ends_.lower_bound(end);
    return after != ends_.begin() && std::prev(after)->second > begin;
  }
  void add(std::int64_t begin, std::int64_t end) {
    auto found = ends_.upper_bound(begin);
    if (found != ends_.begin() && std::prev(found)->second >= begin) --found;
    while (found != ends_.end() && found->first <= end) {
      begin = std::min(begin, found->first), end = std::max(end, found->second);
      found = ends_.erase(found);
    }
    ends_.emplace(begin, end);
  }
  // Returns the ranges of bytes in [begin, end) that are in none of the parts.
  std::vector<std::pair<std::int64_t, std::int64_t>> gaps(std::int64_t begin,
                                                          std::int64_t end) const {
    std::vector<std::pair<std::int64_t, std::int64_t>> found;
    for (const auto& [first, last] : ends_) {
      if (first > begin) found.emplace_back(begin, std::min(first, end));
      begin = std::max(begin, last);
      if (begin >= end) break;
    }
    if (begin < end) found.emplace_back(begin, end);
    return found;
  }

 private:
  std::map<std::int64_t, std::int64_t> ends_;  // begin -> end
};

class FirstSums {
 public:
  explicit FirstSums(Program& program) : program_(program) {
    for (const Bucket& bucket : program.buckets)
      if (!bucket.frozen) parts_[bucket.gradients.buffer];
  }

  // Visits the bodies in the order in which a step first runs them, so that the first task of a
  // body finds which gradients no earlier body has touched.
  void run() {
    std::vector<char> seen(program_.bodies.size(), 0);
    for (const Task& task : program_.tasks) {
      if (std::exchange(seen[task.body], 1) != 0) continue;
      Body& body = program_.bodies[task.body];
      if (body.kind == Body::Kind::step_begin) continue;
      for (Instruction& instruction : body.instructions) visit(instruction);
    }
    clear_the_rest();
  }

 private:
  struct OfBuffer {
    Parts touched, overwritten;
  };

  static bool can_begin(const Instruction& instruction, std::size_t output) {
    if (instruction.when != When::always || output >= 32) return false;
    if (instruction.kind == InstructionKind::compute)
      return can_overwrite(instruction.op, instruction.attributes, output);
    return instruction.kind == InstructionKind::reduce_scatter && instruction.accumulate;
  }

  void visit(Instruction& instruction) {
    for (const Operand& input : instruction.inputs) touch(input);
    std::uint32_t bit = 1;
    for (std::size_t i = 0; i < instruction.outputs.size(); ++i, bit <<= 1U) {
      const Operand& output = instruction.outputs[i];
      const auto found = parts_.find(output.buffer);
      if (found == parts_.end()) continue;
      const std::int64_t begin = output.offset, end = begin + output.type.bytes();
      if (output.part_of == GroupKind::none && can_begin(instruction, i) &&
          !found->second.touched.overlap(begin, end)) {
        instruction.overwrites |= bit;
        found->second.overwritten.add(begin, end);
      }
      touch(output);
    }
  }

  // Notes all bytes that the operand may take on any rank.
  void touch(const Operand& operand) {
    const auto found = parts_.find(operand.buffer);
    if (found == parts_.end()) return;
    if (operand.part_of == GroupKind::none)
      found->second.touched.add(operand.offset, operand.offset + operand.type.bytes());
    else
      found->second.touched.add(0, program_.memory.buffers[operand.buffer].bytes);
  }

  void clear_the_rest() {
    for (Body& body : program_.bodies) {
      if (body.kind != Body::Kind::step_begin) continue;
      for (Instruction& instruction : body.instructions)
        if (instruction.kind == InstructionKind::compute && instruction.op == Op::zero)
          instruction.outputs = without_overwritten(instruction.outputs);
    }
  }

  std::vector<Operand> without_overwritten(const std::vector<Operand>& cleared) const {
    std::vector<Operand> rest;
    for (const Operand& each : cleared) {
      const auto found = parts_.find(each.buffer);
      if (found == parts_.end()) {
        rest.push_back(each);
        continue;
      }
      const std::int64_t end = each.offset + each.type.bytes();
      std::int64_t last = each.offset - shortest_gap;
      for (const auto& [from, to] : found->second.overwritten.gaps(each.offset, end)) {
        if (from - last >= shortest_gap) rest.push_back({each.buffer, from, {}, each.part_of});
        last = to;
        Operand& part = rest.back();
        part.type = {Shape{(to - part.offset) / bytes_of(each.type.dtype)}, each.type.dtype};
      }
    }
    return rest;
  }

  Program& program_;
  std::map<int, OfBuffer> parts_;  // by buffer
};

}  // namespace

void overwrite_first_sums(Program& program) { FirstSums(program).run(); }

}  // namespace meshwright::compiler
