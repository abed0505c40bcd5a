// The road from a model and its plan to what both interpreters take: graph, passes, partition,
// lowering.
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

// What each unit of a graph costs, forward and backward: what a partition balances.
struct UnitCosts {
  std::vector<double> seconds, bytes;
};

// The machine that a plan is compiled for, as far as the compiler asks.
struct Target {
  DeviceFacts device;
  std::function<UnitCosts(const Graph&)> unit_costs;  // asked only for a plan without stages
  // What a rank takes of its device, with what lies beside the Program's own memory. Null: not
  // known, and as little is taken as can be.
  std::function<double(const Program&)> peak_bytes = {};
  double memory_bytes = 0;  // that it may take
};

struct Compiled {
  Plan plan;    // with its stages filled in, and what was left to the compiler
  Graph graph;  // of one rank, after all passes
  std::vector<Program> stages;
};

// `plan` is settled; where plan.stage_of_unit is given, it stays. Where the plan leaves open what
// saves memory but costs time (training.rematerialize_rows, loss_block_bytes), as little of it is
// done as the target's memory allows, alike on all stages: `Compiled::plan` says what. `observe`
// sees the graph that is lowered after each pass.
Compiled compile(const Model& model, Plan plan, const Target& target,
                 const PassObserver& observe = {});

// `plan` without what it leaves open: with all that saves memory, or with nothing of it.
Plan taking_least_memory(Plan plan);
Plan taking_most_memory(Plan plan);
// By the graph of which its stages are cut: nothing in it saves memory, whatever `plan` says.
Plan cut_by(const Plan& plan);
// `plan`, that was compiled, with open again what `asked` leaves to the compiler.
Plan reopened(Plan plan, const Training& asked);

}  // namespace meshwright
