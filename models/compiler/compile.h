// Compiles a model and its plan into Programs, which the simulator replays and the engine runs:
// builds the graph, applies the passes, partitions it into stages and lowers them.
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

// Costs of each unit of a graph (an embedding, a block or the head) for one micro-batch: seconds of
// its forward and backward, and bytes of its weights, states and saved activations. The partition
// balances them.
struct UnitCosts {
  std::vector<double> seconds, bytes;
};

// Describes the machine that a plan is compiled for.
struct Target {
  DeviceFacts device;
  // Called only for a plan without stage_of_unit.
  std::function<UnitCosts(const Graph&)> unit_costs;
  // Returns how many bytes of its device's memory one rank needs to run the Program, including
  // memory besides the Program's own. If it is null, the compiler saves memory wherever the plan
  // leaves that to it.
  std::function<double(const Program&)> peak_bytes = {};
  double memory_bytes = 0;  // the most bytes that a rank may need; only for peak_bytes
};

struct Compiled {
  Plan plan;    // with its stages and, if Target::peak_bytes is set, the compiler's choices
  Graph graph;  // of one rank, after all passes
  std::vector<Program> stages;
};

// Compiles a resolved plan. If plan.stage_of_unit is set, it stays. The plan may leave open two
// choices that save memory but cost time: training.rematerialize_rows and loss_block_bytes. If the
// target knows peak_bytes, they are made identically for all stages: less is saved if that fits
// into the target's memory, and `Compiled::plan` records the choices. `observe` is called after
// each pass that makes the graph that is lowered.
Compiled compile(const Model& model, Plan plan, const Target& target,
                 const PassObserver& observe = {});

// Return `plan` with those two choices made, where it leaves them open: taking_least_memory() saves
// memory, taking_most_memory() saves time.
Plan taking_least_memory(Plan plan);
Plan taking_most_memory(Plan plan);
// Returns `plan` without row rematerialization and with the whole loss in one block. The stages are
// balanced on the graph of this plan, so later memory choices do not move them. Called by compile()
// if the target knows peak_bytes, and by the planner.
Plan cut_by(const Plan& plan);
// Returns the compiled `plan` with rematerialize_rows and loss_block_bytes as in `asked`, the
// settings of the job. A choice that the job leaves to the compiler is open again.
Plan reopened(Plan plan, const Training& asked);

}  // namespace meshwright::compiler
