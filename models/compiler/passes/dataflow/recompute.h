// Activation recomputation: forward nodes are repeated before the gradients of their group, so that
// what they make is not kept from forward to backward. `full`, `each`: whole blocks, their input is
// kept (Chen 2016); `contiguous`, `group_N`: several blocks of one stage together; `selective`:
// attention with its score matrix only (Korthikanti 2022). recompute_fraction: share of the
// blocks, evenly spread. Sequence parallelism gathers again what it gathered. recompute_budget:
// whatever costs least to make again (recompute_budget.h).
#pragma once

#include "models/compiler/plan/plan.h"
#include "models/program/device_facts.h"
#include "models/program/graph/graph.h"

namespace meshwright {

Graph recompute(Graph graph, const Plan& plan, const DeviceFacts& device = {});

}  // namespace meshwright
