// The road from a model and its plan to what both interpreters take: graph, passes, partition,
// lowering.
#pragma once

#include <functional>
#include <vector>

#include "models/graph/graph.h"
#include "models/importers/model.h"
#include "models/passes/pass.h"
#include "models/plan/device_facts.h"
#include "models/plan/plan.h"
#include "models/plan/program.h"

namespace meshwright {

// What each unit of a graph costs, forward and backward: what a partition balances.
struct UnitCosts {
  std::vector<double> seconds, bytes;
};

// The machine that a plan is compiled for, as far as the compiler asks.
struct Target {
  DeviceFacts device;
  std::function<UnitCosts(const Graph&)> unit_costs;  // asked only for a plan without stages
};

struct Compiled {
  Plan plan;    // with its stages filled in
  Graph graph;  // of one rank, after all passes
  std::vector<Program> stages;
};

// `plan` is settled; where plan.stage_of_unit is given, it stays. `observe` sees the graph that is
// lowered after each pass.
Compiled compile(const Model& model, Plan plan, const Target& target,
                 const PassObserver& observe = {});

}  // namespace meshwright
