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

struct Pass {
  std::string_view name;
  std::string_view why_here;
  Graph (*run)(Graph graph, const Plan& plan);
};

using PassObserver = std::function<void(std::string_view pass, const Graph& graph)>;

Graph run_passes(Graph graph, const Plan& plan, std::span<const Pass> passes,
                 const PassObserver& observe = {});

// The list that turns a model's forward graph into what is lowered.
std::span<const Pass> training_passes();

}  // namespace meshwright
