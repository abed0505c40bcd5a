// Graph + Plan -> one Program with its MemoryPlan per pipeline stage: the only place that orders
// work.
#pragma once

#include <vector>

#include "models/compiler/plan/plan.h"
#include "models/program/device_facts.h"
#include "models/program/graph/graph.h"
#include "models/program/program.h"

namespace meshwright {

// `graph`: after training_passes(). `plan.stage_of_unit` is filled in.
std::vector<Program> lower(const Graph& graph, const Plan& plan, const DeviceFacts& device = {});

}  // namespace meshwright
