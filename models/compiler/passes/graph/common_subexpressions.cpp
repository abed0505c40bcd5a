#include "models/compiler/passes/graph/common_subexpressions.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "models/compiler/passes/graph/cleanup.h"
#include "models/program/graph/op_table.h"

namespace meshwright::compiler {

namespace {

bool same_tensors(const TensorIds& a, const TensorIds& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

// Returns whether the node has no effect but to make new tensors. Collectives, nodes that overwrite
// a tensor or add to a gradient, and losses are not pure.
bool is_pure(const Graph& graph, const Node& node) {
  return !info(node.op).communication && std::ranges::all_of(node.outputs, [&](int id) {
    const Tensor& tensor = graph.tensor(id);
    return tensor.role == Role::activation && tensor.alias_of < 0 && !is_loss(graph, id);
  });
}

}  // namespace

Graph share_common_subexpressions(Graph graph, const Plan&) {
  std::vector<char> overwritten(graph.tensors.size(), 0);
  for (const Tensor& tensor : graph.tensors)
    if (tensor.alias_of >= 0) overwritten[tensor.alias_of] = 1;
  for (const Node& node : graph.nodes)  // a sum overwrites this rank's partial sum
    if (node.op == Op::tensor_reduce) overwritten[node.inputs[0]] = 1;
  std::vector<int> same_as(graph.tensors.size());
  for (std::size_t id = 0; id < same_as.size(); ++id) same_as[id] = static_cast<int>(id);
  using Key = std::tuple<Op, Phase, int, int>;   // operation, phase, unit, first input
  std::map<Key, std::vector<std::size_t>> made;  // nodes that are not replaced
  std::vector<char> is_shared(graph.nodes.size(), 0);
  for (std::size_t place = 0; place < graph.nodes.size(); ++place) {
    Node& node = graph.nodes[place];
    for (int& id : node.inputs) id = same_as[id];
    const bool shares =
        is_pure(graph, node) && !node.inputs.empty() &&
        std::ranges::none_of(node.outputs, [&](int id) { return overwritten[id] != 0; });
    if (shares) {
      auto& alike = made[{node.op, node.phase, graph.unit_of(node), node.inputs[0]}];
      const auto earlier = std::ranges::find_if(alike, [&](std::size_t i) {
        const Node& other = graph.nodes[i];
        return same_tensors(other.inputs, node.inputs) && other.attributes == node.attributes;
      });
      if (earlier != alike.end()) {
        for (int i = 0; i < node.outputs.size(); ++i)
          same_as[node.outputs[i]] = graph.nodes[*earlier].outputs[i];
        is_shared[place] = 1;
        continue;
      }
      alike.push_back(place);
    }
  }
  return without(is_shared, std::move(graph));
}

}  // namespace meshwright::compiler
