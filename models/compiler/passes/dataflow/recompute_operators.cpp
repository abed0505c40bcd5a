#include "models/compiler/passes/dataflow/recompute_operators.h"

#include <vector>

#include "models/compiler/passes/dataflow/rematerialize_tensors.h"
#include "models/program/graph/op_table.h"
#include "models/program/graph/widen.h"

namespace meshwright::compiler {

namespace {

// Returns for each node whether its results are saved. Matmuls are counted in each unit, in the
// order of the forward pass: the first is saved, the second is not, and so on.
std::vector<char> saved_nodes(const Graph& graph) {
  std::vector<char> saved(graph.nodes.size(), 0);
  std::vector<int> products(graph.units.size(), 0);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.phase != Phase::forward) continue;
    if (is_product(node.op))
      saved[i] = ++products[graph.unit_of(node)] % 2 == 1;
    else
      saved[i] = node.op == Op::attention || node.op == Op::tensor_reduce ||
                 node.op == Op::sequence_scatter;
  }
  return saved;
}

// Returns for each tensor that has memory of its own whether a node of another unit reads it, in
// any phase, directly or through a tensor that shares its memory. A tensor that no node makes
// counts as well if it is read.
std::vector<char> crossing_tensors(const Graph& graph) {
  std::vector<char> crosses(graph.tensors.size(), 0);
  for (const Node& node : graph.nodes)
    for (const int id : node.inputs) {
      const int base = base_of(graph, id);
      const int producer = graph.tensor(base).producer;
      if (producer < 0 || graph.unit_of(graph.nodes[producer]) != graph.unit_of(node))
        crosses[base] = 1;
    }
  return crosses;
}

}  // namespace

bool recomputes_by_operation(const Training& training) {
  return training.recompute == Recompute::selective && training.framework == Framework::torchtitan;
}

Graph recompute_operators(const Graph& graph) {
  const std::vector<char> saved = saved_nodes(graph), crosses = crossing_tensors(graph);
  std::vector<char> chosen(graph.tensors.size(), 0);
  for (std::size_t id = 0; id < graph.tensors.size(); ++id) {
    const int base = base_of(graph, static_cast<int>(id));
    const Tensor& tensor = graph.tensor(base);
    if (tensor.role != Role::activation || tensor.producer < 0 || crosses[base]) continue;
    const Node& maker = graph.nodes[tensor.producer];
    const bool in_block = graph.units[graph.unit_of(maker)].holds_layer();
    chosen[id] = in_block && maker.phase == Phase::forward && !saved[tensor.producer];
  }
  return rematerialize_tensors(graph, std::move(chosen));
}

}  // namespace meshwright::compiler
