// Calls the plan's partitioner and returns a virtual stage for each unit.
#include "models/compiler/partition/partition.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>

#include "models/core/error.h"

namespace meshwright::compiler {

namespace {

std::vector<double> mixed(std::span<const double> cost, std::span<const double> memory,
                          double memory_weight) {
  const double cost_sum = std::accumulate(cost.begin(), cost.end(), 0.0);
  const double memory_sum = std::accumulate(memory.begin(), memory.end(), 0.0);
  std::vector<double> result(cost.size(), 0);
  for (std::size_t u = 0; u < result.size(); ++u) {
    if (cost_sum > 0) result[u] += (1 - memory_weight) * cost[u] / cost_sum;
    if (memory_sum > 0) result[u] += memory_weight * memory[u] / memory_sum;
  }
  return result;
}

// The module tree of a graph, with its units as leaves: `transformer.h.3` below `transformer.h`
// below `transformer` below the root.
struct UnitTree {
  ModuleTree tree;
  std::vector<std::size_t> item_of_unit;
};

UnitTree tree_of(const Graph& graph, const std::vector<double>& weight) {
  UnitTree result;
  std::vector<ModuleTree::Item>& items = result.tree.items;
  items.push_back({"", 0, -1});
  std::map<std::string, int> module = {{"", 0}};
  for (std::size_t u = 0; u < graph.units.size(); ++u) {
    const std::string& path = graph.units[u].path;
    int parent = 0;
    for (std::size_t dot = path.find('.'); dot != std::string::npos;
         dot = path.find('.', dot + 1)) {
      const auto [entry, is_new] = module.try_emplace(path.substr(0, dot), std::ssize(items));
      if (is_new) items.push_back({entry->first, 0, parent});
      parent = entry->second;
    }
    result.item_of_unit.push_back(items.size());
    items.push_back({path, weight[u], parent});
  }
  return result;
}

// Returns the graph of units that pass activations to each other in the forward pass, with bytes as
// weights of edges. A tensor counts once for each unit that reads it.
WeightedGraph graph_of(const Graph& graph, const std::vector<double>& weight) {
  WeightedGraph result{weight, {}};
  std::set<std::pair<int, int>> sent;  // (tensor, reading unit)
  for (const Node& node : graph.nodes) {
    if (node.phase != Phase::forward) continue;
    const int reader = graph.unit_of(node);
    for (int id : node.inputs) {
      const Tensor& tensor = graph.tensor(id);
      if (tensor.role != Role::activation || tensor.producer < 0) continue;
      const int writer = graph.unit_of(graph.nodes[tensor.producer]);
      if (writer != reader && sent.emplace(id, reader).second)
        result.edges.push_back({writer, reader, static_cast<double>(tensor.type.bytes())});
    }
  }
  return result;
}

// Turns parts in any order into stages along the chain. Parts are numbered by the mean index of
// their units, and each stage takes as many consecutive units as its part had.
std::vector<int> along_the_chain(const std::vector<int>& part, int parts) {
  struct Place {
    double sum = 0;
    int units = 0;
    double mean() const { return sum / units; }
  };
  std::vector<Place> places(parts);
  for (std::size_t u = 0; u < part.size(); ++u) {
    Place& place = places[part[u]];
    place.sum += static_cast<double>(u);
    ++place.units;
  }
  std::ranges::stable_sort(places, {}, &Place::mean);
  std::vector<int> stages;
  for (int stage = 0; stage < parts; ++stage) {
    const int units = places[stage].units;
    MESHWRIGHT_CHECK(units > 0, "no partitioner leaves a part empty");
    stages.insert(stages.end(), units, stage);
  }
  return stages;
}

void check_enough_units(const Graph& graph, const Plan& plan) {
  const int parts = plan.virtual_stage_count(), units = static_cast<int>(graph.units.size());
  if (parts <= units) return;
  const Parallelism& p = plan.parallelism;
  constexpr std::string_view key = "/parallelism/pipeline";
  const std::string remedy =
      " stages but the model has only {} units to cut (embedding, blocks, head); use at most {} "
      "stages";
  throw InputError(p.virtual_stages > 1
                       ? broken(key, "pipeline {} x virtual_stages {} = {}" + remedy, p.pipeline,
                                p.virtual_stages, parts, units, units)
                       : broken(key, "{}" + remedy, parts, units, units));
}

std::vector<int> cut_unit_tree(const Graph& graph, const std::vector<double>& weight, int parts) {
  const UnitTree units = tree_of(graph, weight);
  const std::vector<int> part_of_item = cut_tree(units.tree, parts);
  std::vector<int> part;
  for (std::size_t item : units.item_of_unit) part.push_back(part_of_item[item]);
  return along_the_chain(part, parts);
}

// A graph in which units of multi-token prediction are joined with the unit after them, the head.
// They must be on one stage, because the table of tokens, which they and the embedding read, is on
// the first and the last stage only.
struct Joined {
  Graph graph;
  std::vector<int> unit;  // for every unit, the index of its unit in `graph`
};

Joined joined(const Graph& graph) {
  Joined result{graph, {}};
  result.graph.units.clear();
  for (const Unit& unit : graph.units) {
    result.unit.push_back(static_cast<int>(result.graph.units.size()));
    if (!unit.predicts_ahead) result.graph.units.push_back(unit);
  }
  for (Module& module : result.graph.modules) module.unit = result.unit[module.unit];
  return result;
}

bool predicts_ahead(const Graph& graph) {
  return std::ranges::any_of(graph.units, &Unit::predicts_ahead);
}

std::vector<int> partition_joined(const Graph& graph, const Plan& plan,
                                  std::span<const double> cost, std::span<const double> memory) {
  const Joined parts = joined(graph);
  std::vector<double> costs(parts.graph.units.size(), 0), memories = costs;
  for (std::size_t u = 0; u < parts.unit.size(); ++u) {
    costs[parts.unit[u]] += cost[u];
    memories[parts.unit[u]] += memory[u];
  }
  Plan of_parts = plan;
  if (plan.parallelism.names_every_unit)  // in a saved partition too, they follow the head
    for (const Unit& unit : graph.units)
      if (unit.predicts_ahead) of_parts.parallelism.manual_stage.erase(unit.path);
  const std::vector<int> stages = partition(parts.graph, of_parts, costs, memories);
  std::vector<int> result;
  for (int unit : parts.unit) result.push_back(stages[unit]);
  return result;
}

}  // namespace

std::vector<int> partition(const Graph& graph, const Plan& plan, std::span<const double> cost,
                           std::span<const double> memory) {
  MESHWRIGHT_CHECK(cost.size() == graph.units.size() && memory.size() == graph.units.size(),
                   "one cost and one memory per unit");
  if (predicts_ahead(graph)) return partition_joined(graph, plan, cost, memory);
  check_enough_units(graph, plan);
  const int parts = plan.virtual_stage_count();
  const Parallelism& p = plan.parallelism;
  const std::vector<double> weight = mixed(cost, memory, p.memory_weight);
  switch (p.partitioner) {
    case Partitioner::chain:
      return cut_chain(weight, parts);
    case Partitioner::tree:
      return cut_unit_tree(graph, weight, parts);
    case Partitioner::metis:
      return along_the_chain(cut_graph(graph_of(graph, weight), parts), parts);
    case Partitioner::manual:
      return cut_manually(graph, p.manual_stage, parts, p.names_every_unit);
    case Partitioner::even:
      return cut_evenly(graph, parts);
  }
  MESHWRIGHT_CHECK(false, "every partitioner is listed above");
  return {};
}

}  // namespace meshwright::compiler
