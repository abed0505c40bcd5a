// Graph passes: free functions, run from one visible ordered list (pipelines.cpp), the graph
// verified after each.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "models/graph/graph.h"
#include "models/plan/plan.h"

namespace meshwright {

// The compiler levels at which a pass runs: bit i is that of CompilerLevel i.
enum Levels : unsigned { at_none = 1, at_fused = 2, at_full = 4, at_every_level = 7 };

struct Pass {
  std::string_view name;
  std::string_view why_here;
  Graph (*run)(Graph graph, const Plan& plan);
  unsigned levels = at_every_level;
  // Without it the graph means the same, but takes longer or more memory: training.passes_off may
  // name it.
  bool optional = false;
};

// Called after each pass; `seconds`: what the pass and the check of its graph took.
using PassObserver = std::function<void(const Pass& pass, const Graph& graph, double seconds)>;

// The list that turns a model's forward graph into what is lowered; those of all levels.
std::span<const Pass> training_passes();

// Those that run at the training's level and are not switched off.
std::vector<Pass> passes_of(const Training& training);

// Refuses names in training.passes_off that are no optional pass: InputError with the JSON pointer.
void check_passes_off(const Training& training);

Graph run_passes(Graph graph, const Plan& plan, const PassObserver& observe = {});

}  // namespace meshwright
