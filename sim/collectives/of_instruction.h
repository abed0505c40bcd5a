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

}  // namespace meshwright::sim
