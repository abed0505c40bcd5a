// Turns a graph and a plan into one Program, with its MemoryPlan, per pipeline stage. No other code
// orders work.
#pragma once

#include <vector>

#include "models/compiler/plan/plan.h"
#include "models/program/device_facts.h"
#include "models/program/graph/graph.h"
#include "models/program/program.h"

namespace meshwright::compiler {

// Lowers `graph`, which comes from training_passes(), and returns a Program for each pipeline
// stage. `plan.stage_of_unit` must be filled in.
std::vector<Program> lower(const Graph& graph, const Plan& plan, const DeviceFacts& device = {});

}  // namespace meshwright::compiler
