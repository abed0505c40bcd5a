// Describes instructions in words, for messages to people.
#pragma once

#include <string>
#include <string_view>

#include "models/program/program.h"

namespace meshwright::program {

std::string_view name_of(InstructionKind kind);

// Returns a text like "all_reduce of group tensor in transformer.h.1.mlp, backward, micro-batch 2".
// For a task that is for no micro-batch, at the begin or end of a step, the text ends with "around
// the micro-batches".
std::string describe(const Program& program, const Task& task, const Instruction& instruction);

}  // namespace meshwright::program
