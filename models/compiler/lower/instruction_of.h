// The instruction of one node of the graph.
#pragma once

#include "models/program/program.h"

namespace meshwright {

struct StageDraft;

// Of a node whose operands have their places; those that it makes are given one.
Instruction instruction_of(StageDraft& draft, const Node& node, int virtual_stage);

}  // namespace meshwright
