// Graph + Plan -> one Program with its MemoryPlan per pipeline stage: the only place that orders
// work.
#pragma once

#include <vector>

#include "models/graph/graph.h"
#include "models/plan/device_facts.h"
#include "models/plan/plan.h"
#include "models/plan/program.h"

namespace meshwright {

// `graph`: after training_passes(). `plan.stage_of_unit` is filled in.
std::vector<Program> lower(const Graph& graph, const Plan& plan, const DeviceFacts& device = {});

}  // namespace meshwright
