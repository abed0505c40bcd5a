// METIS cuts a general graph in two, and then each half again. meshwright does this recursion
// itself, because METIS's own one lets a half run out of nodes, and prints about it, if there are
// few nodes per part. METIS needs integers, so weights are scaled to a fixed sum. Its seed is
// fixed, so that the same graph is always cut the same way.
#include <metis.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>

#include "models/compiler/partition/partition.h"
#include "models/core/error.h"

namespace meshwright::compiler {

namespace {

constexpr double scaled_sum = 1e8;  // METIS adds weights up in 32 bits

idx_t scaled(double weight, double sum) {
  MESHWRIGHT_CHECK(std::isfinite(weight) && weight >= 0, "weights are not negative");
  return sum > 0 ? std::max<idx_t>(1, static_cast<idx_t>(weight / sum * scaled_sum)) : 1;
}

// A graph in METIS's format: the neighbours of node i are adjacent[k] for k from start[i] to
// start[i + 1] - 1.
struct Compressed {
  std::vector<idx_t> node_weight, start, adjacent, edge_weight;
};

Compressed compress(const WeightedGraph& graph) {
  Compressed result;
  const double node_sum = std::accumulate(graph.node_weight.begin(), graph.node_weight.end(), 0.0);
  for (double weight : graph.node_weight) result.node_weight.push_back(scaled(weight, node_sum));
  std::vector<std::map<int, double>> neighbours(graph.node_weight.size());
  double edge_sum = 0;
  for (const WeightedGraph::Edge& edge : graph.edges) {
    if (edge.a == edge.b) continue;
    neighbours.at(edge.a)[edge.b] += edge.weight;
    neighbours.at(edge.b)[edge.a] += edge.weight;
    edge_sum += edge.weight;
  }
  result.start.push_back(0);
  for (const std::map<int, double>& row : neighbours) {
    for (const auto& [node, weight] : row) {
      result.adjacent.push_back(node);
      result.edge_weight.push_back(scaled(weight, edge_sum));
    }
    result.start.push_back(static_cast<idx_t>(result.adjacent.size()));
  }
  return result;
}

// Returns the side (0 or 1) of every node. Side 0 gets about `share` of the weight, in (0, 1).
std::vector<int> bisect(const WeightedGraph& graph, double share) {
  Compressed c = compress(graph);
  idx_t options[METIS_NOPTIONS];
  METIS_SetDefaultOptions(options);
  options[METIS_OPTION_SEED] = 1;
  options[METIS_OPTION_NUMBERING] = 0;
  real_t shares[] = {static_cast<real_t>(share), static_cast<real_t>(1 - share)};
  idx_t nodes = static_cast<idx_t>(c.node_weight.size()), constraints = 1, sides = 2, edge_cut = 0;
  std::vector<idx_t> side(c.node_weight.size());
  const int status = METIS_PartGraphRecursive(
      &nodes, &constraints, c.start.data(), c.adjacent.data(), c.node_weight.data(), nullptr,
      c.edge_weight.data(), &sides, shares, nullptr, options, &edge_cut, side.data());
  MESHWRIGHT_CHECK(status == METIS_OK, "METIS takes every graph that compress() makes");
  return {side.begin(), side.end()};
}

// Moves nodes to side `needy` until it has at least `wanted` nodes. Each time, it moves the node
// that adds least to the weight of cut edges, and the first one among equals.
void feed(const WeightedGraph& graph, std::vector<int>& side, int needy, std::ptrdiff_t wanted) {
  while (std::ranges::count(side, needy) < wanted) {
    std::vector<double> added(side.size(), 0);
    for (const WeightedGraph::Edge& edge : graph.edges) {
      const std::size_t a = edge.a, b = edge.b;
      if (a == b) continue;
      added[a] += side[b] == needy ? -edge.weight : edge.weight;
      added[b] += side[a] == needy ? -edge.weight : edge.weight;
    }
    std::size_t best = side.size();
    for (std::size_t i = 0; i < side.size(); ++i)
      if (side[i] != needy && (best == side.size() || added[i] < added[best])) best = i;
    side[best] = needy;
  }
}

// Returns the nodes on side `which`, with the edges between them, as a graph of their own. Appends
// their numbers in `graph` to `nodes`.
WeightedGraph half(const WeightedGraph& graph, const std::vector<int>& side, int which,
                   std::vector<std::size_t>& nodes) {
  WeightedGraph result;
  std::vector<int> number(side.size(), -1);
  for (std::size_t i = 0; i < side.size(); ++i) {
    if (side[i] != which) continue;
    number[i] = static_cast<int>(nodes.size());
    nodes.push_back(i);
    result.node_weight.push_back(graph.node_weight[i]);
  }
  for (const WeightedGraph::Edge& edge : graph.edges) {
    const int a = number[edge.a];
    const int b = number[edge.b];
    if (a >= 0 && b >= 0) result.edges.push_back({a, b, edge.weight});
  }
  return result;
}

std::vector<int> cut(const WeightedGraph& graph, int parts) {
  std::vector<int> part(graph.node_weight.size(), 0);
  if (parts == 1) return part;
  if (std::ssize(part) == parts) {
    std::iota(part.begin(), part.end(), 0);
    return part;
  }
  const int of_side[] = {parts / 2, parts - parts / 2};
  std::vector<int> side = bisect(graph, static_cast<double>(of_side[0]) / parts);
  for (int which : {0, 1}) feed(graph, side, which, of_side[which]);
  for (int which : {0, 1}) {
    std::vector<std::size_t> nodes;
    const std::vector<int> inner = cut(half(graph, side, which, nodes), of_side[which]);
    for (std::size_t i = 0; i < nodes.size(); ++i)
      part[nodes[i]] = inner[i] + (which == 0 ? 0 : of_side[0]);
  }
  return part;
}

}  // namespace

std::vector<int> cut_graph(const WeightedGraph& graph, int parts) {
  const int nodes = static_cast<int>(graph.node_weight.size());
  MESHWRIGHT_CHECK(parts >= 1, "at least one part");
  if (nodes < parts)
    throw InputError("a graph of " + std::to_string(nodes) + " nodes cannot be cut into " +
                     std::to_string(parts) + " parts; use at most " + std::to_string(nodes));
  return cut(graph, parts);
}

}  // namespace meshwright::compiler
