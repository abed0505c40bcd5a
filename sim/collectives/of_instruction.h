// Says which collective an instruction of a Program is, for those that ask select.h for its time.
#pragma once

#include <optional>

#include "models/program/program.h"
#include "sim/collectives/select.h"

namespace meshwright::sim {

// Returns the collective that instructions of a kind are, or nothing if they are none, as messages
// and ring shifts.
std::optional<CollectiveKind> collective_kind(InstructionKind instruction);

// Returns the bytes of the whole buffer of a collective, which collective_time() asks for: those of
// its inputs or of its outputs, whichever are more.
std::int64_t whole_bytes(const Instruction& collective);

// Returns the bytes of whole_bytes() that are sent. They are fewer for dropless experts of training
// frameworks, which send the tokens that chose them, while this project's engine sends all planned
// rows. With unequal use of experts, they are those of the most loaded rank.
std::int64_t sent_bytes(const Instruction& collective, const Machine& machine);

// Returns whether the instruction tells the ranks of an expert group how many tokens they get.
// Frameworks wait for these numbers on the host, because they launch kernels by them. This
// project's engine reads them on the device.
bool is_of_counts(const Instruction& instruction, const Machine& machine);

}  // namespace meshwright::sim
