// Says which collective an instruction of a Program is and how many bytes it has. Callers ask
// select.h for its time.
#pragma once

#include <optional>

#include "models/program/program.h"
#include "sim/collectives/select.h"

namespace meshwright::sim {

// Returns the collective that instructions of a kind are, or nothing for other instructions, such
// as messages and ring shifts.
std::optional<CollectiveKind> collective_kind(InstructionKind instruction);

// Returns the bytes of the whole buffer of a collective, which collective_time() asks for: those of
// its inputs or of its outputs, whichever are more.
std::int64_t whole_bytes(const Instruction& collective);

// Returns how many of the bytes of whole_bytes() are sent. For experts without dropped tokens, a
// training framework sends only the tokens that chose them, while this project's engine sends all
// planned entries. If experts are used unequally, the bytes are those of the most loaded rank.
std::int64_t sent_bytes(const Instruction& collective, const Machine& machine);

// Returns whether a training framework's host waits for the result of the instruction, which tells
// the ranks of an expert group how many tokens they get. Frameworks launch kernels by these
// numbers. It is false if this project's engine runs on the machine, because its kernels read the
// numbers on the device.
bool is_of_counts(const Instruction& instruction, const Machine& machine);

}  // namespace meshwright::sim
