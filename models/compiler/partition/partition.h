// Partitions a model into pipeline stages. Costs are arguments, so the partitioners need no clock.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "models/compiler/plan/plan.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

// Returns the part of every item of a chain, split into `parts` non-empty parts of consecutive
// items. The largest sum of a part is the exact minimum over all such splits. Throws InputError if
// there are fewer items than parts.
std::vector<int> cut_chain(std::span<const double> cost, int parts);

// A tree of modules. Children are in order of execution. `cost` is the module's own, without its
// children.
struct ModuleTree {
  struct Item {
    std::string path;
    double cost = 0;
    int parent = -1;
  };
  std::vector<Item> items;  // parents before children
};
// Distributes runs of consecutive children over parts in proportion to cost (D'Hondt), from the
// root down. A module is on the first part of its subtree. Returns the part of every item. Throws
// InputError if the tree has fewer leaves than parts.
std::vector<int> cut_tree(const ModuleTree& tree, int parts);

// A general graph with undirected edges. cut_graph() returns the part of every node. It uses METIS
// to balance the weights of nodes and to keep the weight of edges between parts low. It throws
// InputError if the graph has fewer nodes than parts.
struct WeightedGraph {
  std::vector<double> node_weight;
  struct Edge {
    int a, b;
    double weight;
  };
  std::vector<Edge> edges;
};
std::vector<int> cut_graph(const WeightedGraph& graph, int parts);

// Returns the stage of every unit by the stages that a user gives for module paths. A unit takes
// the stage of the longest given prefix of its path, otherwise the stage of the unit before it (0
// for the first unit). The empty path is a prefix of every path, and its stage is a default: a unit
// that only the default fits takes the larger of the default and the stage of the unit before it.
// With `every_unit`, each unit must have a prefix. Throws InputError if a unit lacks one then, if a
// path is no prefix of any unit's path, if a stage is not in [0, parts), if stages decrease along
// the chain, or if a stage is empty.
std::vector<int> cut_manually(const Graph& graph, const std::map<std::string, int>& stage_of,
                              int parts, bool every_unit);

// Returns the split of SageMaker's examples: each part gets blocks div parts blocks, and each of
// the last (blocks mod parts) parts one more. Units before the blocks are on the first part, units
// between blocks on the part of the next block, and units after them on the last part. With one
// part more than blocks, the units after the blocks have a part of their own. With two more, the
// units before them do too. Throws InputError if there are more than blocks + 2 parts.
std::vector<int> cut_evenly(const Graph& graph, int parts);

// Returns the virtual stage of every unit of the graph, as the plan's partitioner asks. `cost` and
// `memory` are per unit, in any unit of measure, because each is normalised. The plan's
// memory_weight mixes them. Throws InputError if the graph has fewer units than virtual stages, or
// if the partitioner does.
std::vector<int> partition(const Graph& graph, const Plan& plan, std::span<const double> cost,
                           std::span<const double> memory);

}  // namespace meshwright::compiler
