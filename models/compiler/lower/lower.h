// Turns a graph and a plan into one Program, with its MemoryPlan, for each pipeline stage.
#pragma once

#include <vector>

#include "models/compiler/plan/plan.h"
#include "models/program/device_facts.h"
#include "models/program/graph/graph.h"
#include "models/program/program.h"

namespace meshwright::compiler {

// Returns a Program for each pipeline stage. `graph` must have gone through the passes, and
// `plan.stage_of_unit` must be filled in.
std::vector<Program> lower(const Graph& graph, const Plan& plan, const DeviceFacts& device = {});

}  // namespace meshwright::compiler
