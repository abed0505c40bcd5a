// Compiles a model and its plan into Programs, which both interpreters run: builds the graph,
// applies the passes, partitions it into stages and lowers them.
#pragma once

#include <functional>
#include <vector>

#include "models/architectures/model.h"
#include "models/compiler/passes/pass.h"
#include "models/compiler/plan/plan.h"
#include "models/program/device_facts.h"
#include "models/program/graph/graph.h"
#include "models/program/program.h"

namespace meshwright::compiler {

// Costs of each unit of a graph, forward and backward: time in seconds, memory in bytes. The
// partition balances them.
struct UnitCosts {
  std::vector<double> seconds, bytes;
};

// Describes the machine that a plan is compiled for, with the facts that the compiler needs.
struct Target {
  DeviceFacts device;
  // Called only for a plan without stage_of_unit.
  std::function<UnitCosts(const Graph&)> unit_costs;
  // Returns how many bytes of its device one rank needs to run the Program, including memory
  // besides the Program's own. Null if unknown: the compiler then saves as much memory as it can.
  std::function<double(const Program&)> peak_bytes = {};
  double memory_bytes = 0;  // most bytes that a rank may need
};

struct Compiled {
  Plan plan;    // with its stages filled in, and with the choices that were left to the compiler
  Graph graph;  // of one rank, after all passes
  std::vector<Program> stages;
};

// Compiles a resolved plan. If plan.stage_of_unit is set, it stays. If the plan leaves open what
// saves memory but costs time (training.rematerialize_rows, loss_block_bytes), as little of it is
// done as the target's memory allows, identically on all stages, and `Compiled::plan` records the
// choice. `observe` is called after each pass with the graph that is lowered.
Compiled compile(const Model& model, Plan plan, const Target& target,
                 const PassObserver& observe = {});

// Return `plan` with every choice about memory made: taking_least_memory() saves memory wherever
// the plan leaves it open, taking_most_memory() nowhere.
Plan taking_least_memory(Plan plan);
Plan taking_most_memory(Plan plan);
// Returns `plan` without row rematerialization and loss blocks. The stages are balanced on its
// graph, so later memory choices do not move them. Called by compile() and the planner.
Plan cut_by(const Plan& plan);
// Returns the compiled `plan` with every choice undone that `asked` leaves to the compiler.
Plan reopened(Plan plan, const Training& asked);

}  // namespace meshwright::compiler
