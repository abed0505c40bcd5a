// This is the whole road from a model and its plan to what both interpreters take: graph, passes,
// partition, lowering.
#pragma once

#include <functional>
#include <vector>

#include "models/architectures/model.h"
#include "models/compiler/passes/pass.h"
#include "models/compiler/plan/plan.h"
#include "models/program/device_facts.h"
#include "models/program/graph/graph.h"
#include "models/program/program.h"

namespace meshwright {

// Costs of each unit of a graph, forward and backward. The partition balances them.
struct UnitCosts {
  std::vector<double> seconds, bytes;
};

// Describes the machine that a plan is compiled for, as far as the compiler asks.
struct Target {
  DeviceFacts device;
  std::function<UnitCosts(const Graph&)> unit_costs;  // asked only for a plan without stages
  // Returns how many bytes one rank takes of its device to run the Program, including what it needs
  // besides the Program's own memory. Null if unknown: then everything that saves memory is done.
  std::function<double(const Program&)> peak_bytes = {};
  double memory_bytes = 0;  // that it may take
};

struct Compiled {
  Plan plan;    // with its stages filled in, and what was left to the compiler
  Graph graph;  // of one rank, after all passes
  std::vector<Program> stages;
};

// Compiles a resolved plan. If plan.stage_of_unit is set, it stays. If the plan leaves open what
// saves memory but costs time (training.rematerialize_rows, loss_block_bytes), as little of it is
// done as the target's memory allows, identically on all stages, and `Compiled::plan` records the
// choice. `observe` is called after each pass with the graph that is lowered.
Compiled compile(const Model& model, Plan plan, const Target& target,
                 const PassObserver& observe = {});

// Returns `plan` with nothing left open: with everything that saves memory, or with none of it.
Plan taking_least_memory(Plan plan);
Plan taking_most_memory(Plan plan);
// Returns `plan` without row rematerialization and loss blocks. The stages are balanced on its
// graph, so later memory choices do not move them. Called by compile() and the planner.
Plan cut_by(const Plan& plan);
// Returns the compiled `plan`, in which everything that `asked` leaves to the compiler is open
// again.
Plan reopened(Plan plan, const Training& asked);

}  // namespace meshwright
