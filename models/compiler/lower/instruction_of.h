// Makes the instruction of one node of the graph.
#pragma once

#include "models/program/program.h"

namespace meshwright::compiler {

struct StageDraft;

// Returns the instruction of a node. The tensors that the node reads must have memory already.
// Assigns memory to the tensors that it makes.
Instruction instruction_of(StageDraft& draft, const Node& node, int virtual_stage);

}  // namespace meshwright::compiler
