#include "exec/runtime/inputs.h"

#include <algorithm>

#include "models/program/graph/context.h"

namespace meshwright::exec {

namespace {

const Instruction& instruction_of(const Program& program, int task, int index) {
  const auto body = static_cast<std::size_t>(program.tasks[task].body);
  return program.bodies[body].instructions[index];
}

// Returns whether the input is one that the user's own script provides. PyTorch reads it from
// there.
bool is_of_script(const Instruction& load) { return load.channel >= first_captured_channel; }

std::int32_t** channel(SequenceInputs& into, int number) {
  std::int32_t** const plain[first_channel_ahead] = {&into.tokens, &into.targets, &into.positions,
                                                     &into.decoder, &into.documents};
  if (number < first_channel_ahead) return plain[number];
  const int ahead = number - first_channel_ahead;
  SequenceInputs::Ahead& each = into.ahead[ahead / 2];
  return ahead % 2 == 0 ? &each.tokens : &each.targets;
}

}  // namespace

Inputs::Inputs(const Program& program, const Arena& memory, const InputShare& share,
               std::int64_t sequence_length)
    : program_(program), memory_(memory), share_(share), sequence_(sequence_length) {
  if (memory.backend().shares_memory_with_host()) return;
  std::int64_t bytes = 0;
  for (std::size_t task = 0; task < program.tasks.size(); ++task) {
    const auto& body = program.bodies[program.tasks[task].body];
    for (std::size_t i = 0; i < body.instructions.size(); ++i) {
      if (body.instructions[i].kind != InstructionKind::load_input) continue;
      if (is_of_script(body.instructions[i])) continue;
      place_[{static_cast<int>(task), static_cast<int>(i)}] = bytes;
      bytes += body.instructions[i].outputs[0].type.bytes();
    }
  }
  ahead_ = static_cast<char*>(memory.backend().allocate_host(bytes));
}

Inputs::~Inputs() {
  if (ahead_ != nullptr) memory_.backend().deallocate_host(ahead_);
}

void Inputs::read_ahead(int task, int instruction, std::int64_t first_sequence, Loader& loader) {
  const auto place = place_.find({task, instruction});
  if (place == place_.end()) return;
  read(instruction_of(program_, task, instruction), first_sequence, loader,
       reinterpret_cast<std::int32_t*>(ahead_ + place->second));
}

void Inputs::load(int task, int instruction, std::int64_t first_sequence, Loader& loader) {
  const Instruction& load = instruction_of(program_, task, instruction);
  if (is_of_script(load)) return;
  void* to = memory_.address(load.outputs[0], program_.tasks[task].slot);
  if (ahead_ == nullptr)
    read(load, first_sequence, loader, static_cast<std::int32_t*>(to));
  else
    memory_.backend().copy(to, ahead_ + place_.at({task, instruction}),
                           load.outputs[0].type.bytes());
}

// Reads the input of a load instruction to `to`. If the input is shared by a tensor group, each of
// its ranks reads a share of the sequences. Each rank of a context group reads a share of each
// sequence. The share is larger if several context ranks exchange heads and need the same
// documents. These then read one common share.
void Inputs::read(const Instruction& instruction, std::int64_t first_sequence, Loader& loader,
                  std::int32_t* to) {
  const bool shared_out = instruction.group == GroupKind::tensor;
  const std::int64_t own =
      shared_out ? share_.micro_batch / share_.tensor_size : share_.micro_batch;
  const std::int64_t first = first_sequence + (shared_out ? share_.tensor_rank * own : 0);
  const std::int64_t width = instruction.outputs[0].type.shape.elements() / own;
  const auto parts = static_cast<int>(std::ssize(sequence_) / width);
  const int context = share_.context_size == 1 ? 1 : parts;
  const int rank = share_.context_rank / (share_.context_size / context);
  for (std::int64_t i = 0; i < own; ++i, to += width) {
    std::int32_t* whole = context == 1 ? to : sequence_.data();
    SequenceInputs into;
    *channel(into, instruction.channel) = whole;
    loader.read(first + i, into);
    for (int half = 0; half < 2 && context > 1; ++half)
      std::copy_n(whole + context_half_begin(context, rank, width, half), width / 2,
                  to + half * (width / 2));
  }
}

}  // namespace meshwright::exec
