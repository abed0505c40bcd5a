// The instruction of one node of the graph.
#pragma once

#include "models/program/program.h"

namespace meshwright {

struct StageDraft;

// Returns the instruction of a node. Its inputs must have their places, and the tensors that it
// makes are given one.
Instruction instruction_of(StageDraft& draft, const Node& node, int virtual_stage);

}  // namespace meshwright
