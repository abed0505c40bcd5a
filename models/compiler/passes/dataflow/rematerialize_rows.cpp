#include "models/compiler/passes/dataflow/rematerialize_rows.h"

#include <algorithm>

#include "models/compiler/passes/graph/cleanup.h"
#include "models/program/graph/op_table.h"

namespace meshwright::compiler {

namespace {

class RowRepetition {
 public:
  explicit RowRepetition(const Graph& graph)
      : old_(graph), first_user_(graph.tensors.size(), -1), again_(graph.nodes.size()) {
    for (int i = static_cast<int>(graph.nodes.size()) - 1; i >= 0; --i)
      if (graph.nodes[i].phase != Phase::forward)
        for (int id : graph.nodes[i].inputs) first_user_[id] = i;
    // Per tensor: whether it is available in the backward whatever this pass decides.
    std::vector<char> stays(graph.tensors.size(), 0);
    for (std::size_t id = 0; id < graph.tensors.size(); ++id)
      stays[id] = first_user_[id] >= 0 || graph.tensors[id].role != Role::activation;
    for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) {
      const Node& node = graph.nodes[i];
      const int first = first_user(node);
      if (first < 0 || !is_cheap(node, stays)) continue;
      // The first backward reader must be in the same unit, because another unit may be on another
      // stage.
      if (graph.unit_of(graph.nodes[first]) != graph.unit_of(node)) continue;
      for (int id : node.outputs) stays[id] = 0;
      again_[first].push_back(i);
    }
  }

  Graph run() {
    Graph out = old_;
    out.nodes.clear();
    std::vector<int> replaced(old_.tensors.size());
    for (std::size_t id = 0; id < replaced.size(); ++id) replaced[id] = static_cast<int>(id);
    for (std::size_t i = 0; i < old_.nodes.size(); ++i) {
      for (int index : again_[i]) {
        const Node& node = old_.nodes[index];
        const int made =
            out.add(node.op, node.module, node.inputs, node.attributes, Phase::recompute);
        for (int k = 0; k < node.outputs.size(); ++k)
          replaced[node.outputs[k]] = out.output(made, k);
      }
      Node node = old_.nodes[i];
      if (node.phase != Phase::forward)
        for (int& id : node.inputs) id = replaced[id];
      out.nodes.push_back(node);
    }
    return cleaned(std::move(out));
  }

 private:
  int first_user(const Node& node) const {
    int first = -1;
    for (int id : node.outputs) {
      const int user = first_user_[id];
      if (user >= 0 && (first < 0 || user < first)) first = user;
    }
    return first;
  }

  bool is_cheap(const Node& node, const std::vector<char>& stays) const {
    const RowRule& rule = info(node.op).rows;
    if (node.phase != Phase::forward || !rule || rule.product) return false;
    return std::ranges::all_of(node.inputs, [&](int id) { return stays[id] != 0; });
  }

  const Graph& old_;
  // Per tensor: the first recomputed or backward node that reads it, or -1.
  std::vector<int> first_user_;
  std::vector<std::vector<int>> again_;  // per node: the nodes that are repeated just before it
};

}  // namespace

bool may_rematerialize_rows(const Plan& plan) {
  // With offloaded layers, repeated nodes would read inputs of layers, which share a few buffers on
  // the device.
  if (plan.parallelism.offload == Offload::layers) return false;
  // A budget has already decided tensor by tensor, and counts the bytes that are live during
  // recomputation.
  return !plan.training.recompute_budget;
}

Graph rematerialize_rows(Graph graph, const Plan& plan) {
  if (!may_rematerialize_rows(plan) || !plan.training.rematerialize_rows.value_or(true))
    return graph;
  graph = without_reuse(std::move(graph));
  return RowRepetition(graph).run();
}

}  // namespace meshwright::compiler
