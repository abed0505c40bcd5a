// Cutting a model into pipeline stages. Costs are arguments: the partitioners know no clocks.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright {

// Returns the part of every item such that the largest part's sum is the exact minimum over all
// cuts of a chain into `parts` non-empty consecutive parts. Throws InputError if there are fewer
// items than parts.
std::vector<int> cut_chain(std::span<const double> cost, int parts);

// A tree of modules: children in order of execution; `cost` is the module's own, without its
// children.
struct ModuleTree {
  struct Item {
    std::string path;
    double cost = 0;
    int parent = -1;
  };
  std::vector<Item> items;  // parents before children
};
// Deals segments of children to parts in proportion to cost (D'Hondt), from the root down. A module
// stays on the first part of its subtree. Returns the part of every item.
std::vector<int> cut_tree(const ModuleTree& tree, int parts);

// A general graph with METIS: balanced node weights, least edge weight cut. `edges` are undirected
// pairs.
struct WeightedGraph {
  std::vector<double> node_weight;
  struct Edge {
    int a, b;
    double weight;
  };
  std::vector<Edge> edges;
};
std::vector<int> cut_graph(const WeightedGraph& graph, int parts);

// A stage per module path: a unit takes the stage of the longest given prefix of its path (the
// empty path is one of all), else that of the unit before it; with `every_unit` each must be named.
// Stages must be in [0, parts), not decrease along the chain, and none may be empty: InputError
// otherwise.
std::vector<int> cut_manually(const Graph& graph, const std::map<std::string, int>& stage_of,
                              int parts, bool every_unit);

// Blocks div parts on every part, and one more on each of the last (blocks mod parts): the split of
// SageMaker's examples. What comes before the blocks is on the first part, what comes after on the
// last. Where the parts are one or two more than the blocks, what comes after, and then what comes
// before, has a part of its own.
std::vector<int> cut_evenly(const Graph& graph, int parts);

// Returns the virtual stage of every unit of the graph, as the plan's partitioner asks. `cost` and
// `memory` are per unit (any unit of measure, because each is normalised). The plan's memory_weight
// mixes them.
std::vector<int> partition(const Graph& graph, const Plan& plan, std::span<const double> cost,
                           std::span<const double> memory);

}  // namespace meshwright
