// Memory that Megatron-LM does not need although a Program has places for it. Since April 2025
// (Megatron-Core 0.12) it multiplies by the router's probabilities inside the experts
// (permuted_probs in megatron/core/transformer/moe/experts.py), so the sum of a token's experts is
// a plain sum and their outputs are not saved for its gradient.
#pragma once

#include <cstdint>

#include "models/program/program.h"

namespace meshwright::sim {

// Returns the bytes in one slot of a chunk that hold outputs of experts for the gradient of
// Op::combine and for nothing else in the backward. Returns 0 for a framework other than
// Megatron's, and if the backward is split, where slots are packed by lifetimes.
std::int64_t expert_outputs_of_slot(const Program& program, int chunk);

// Returns the same bytes of all slots of a stage.
std::int64_t expert_outputs_left_out(const Program& program);

}  // namespace meshwright::sim
