#include "models/compiler/passes/dataflow/recompute.h"

#include <algorithm>

#include "models/compiler/passes/dataflow/recompute_budget.h"
#include "models/compiler/passes/dataflow/recompute_operators.h"
#include "models/compiler/passes/dataflow/recomputed_groups.h"
#include "models/compiler/passes/graph/cleanup.h"
#include "models/compiler/passes/rewriting.h"

namespace meshwright::compiler {

namespace {

class Recomputation {
 public:
  Recomputation(const Graph& graph, const Plan& plan, std::vector<int> groups)
      : old_(graph),
        selective_(plan.training.recompute == Recompute::selective),
        prune_(plan.training.compiler == CompilerLevel::full),
        group_(std::move(groups)) {}

  Graph run() {
    out_ = old_;
    out_.nodes.clear();
    const int groups = 1 + *std::ranges::max_element(group_);
    forward_of_group_.resize(static_cast<std::size_t>(groups));
    replaced_.assign(old_.tensors.size(), -1);
    std::vector<char> begun(groups, 0);
    for (std::size_t i = 0; i < old_.nodes.size(); ++i) {
      const Node& node = old_.nodes[i];
      const auto group = static_cast<std::size_t>(group_[i]);
      const bool repeated = group_[i] >= 0 && !is_of_step(old_, node);
      if (node.phase == Phase::forward) {
        if (repeated) forward_of_group_[group].push_back(&node);
        append_node(out_, node);
        continue;
      }
      if (repeated && !begun[group]) {
        begun[group] = 1;
        for (const Node* again : needed(group)) repeat(*again);
      }
      gather_again(node);
      append_node(out_, rewired(node, group_[i]));
    }
    return std::move(out_);
  }

 private:
  // Returns the forward nodes of the group that are repeated. These are all of them, or, if the
  // pass prunes (compiler level full), only those that the group's gradients need.
  std::vector<const Node*> needed(std::size_t group) const {
    const auto& forward = forward_of_group_[group];
    if (!prune_) return forward;
    std::vector<char> wanted(old_.tensors.size(), 0);
    for (std::size_t i = 0; i < old_.nodes.size(); ++i)
      if (old_.nodes[i].phase == Phase::backward && group_[i] == static_cast<int>(group))
        for (int id : old_.nodes[i].inputs) wanted[id] = 1;
    std::vector<const Node*> kept;
    for (auto it = forward.rbegin(); it != forward.rend(); ++it) {
      bool want = false;
      for (int id : (*it)->outputs) want = want || wanted[id];
      if (!want) continue;
      for (int id : (*it)->inputs) wanted[id] = 1;
      kept.push_back(*it);
    }
    return {kept.rbegin(), kept.rend()};
  }

  void repeat(const Node& node) {
    TensorIds inputs;
    for (int id : node.inputs) {
      const int again = replaced_[id];
      inputs.push_back(again >= 0 ? again : id);
    }
    const int index = out_.add(node.op, node.module, inputs, node.attributes, Phase::recompute);
    for (int i = 0; i < node.outputs.size(); ++i)
      replaced_[node.outputs[i]] = out_.output(index, i);
  }

  // Returns whether the tensor was gathered in the forward pass because ranks hold shares of the
  // rows. Then only the share of a rank is saved, and the tensor is gathered again for the
  // gradient.
  bool is_gathered(int tensor) const {
    const int producer = old_.tensor(tensor).producer;
    if (producer < 0) return false;
    const Node& maker = old_.nodes[producer];
    return maker.op == Op::sequence_gather && maker.phase == Phase::forward &&
           // Gathered inputs of the model are small, so they are saved and do not count.
           old_.tensor(maker.inputs[0]).role != Role::input;
  }

  void gather_again(const Node& node) {
    for (int id : node.inputs)
      if (is_gathered(id) && replaced_[id] < 0) repeat(old_.nodes[old_.tensor(id).producer]);
  }

  // Returns the node with its inputs replaced by recomputed tensors of its group, and by tensors
  // that were gathered again. Under selective recomputation, readers of attention's output still
  // read the saved one, because the projection after attention saves that anyway.
  Node rewired(Node node, int group) const {
    for (int i = 0; i < node.inputs.size(); ++i) {
      const int id = node.inputs[i];
      if (id >= static_cast<int>(replaced_.size())) continue;
      const int again = replaced_[id];
      if (again < 0) continue;
      const int producer = old_.tensor(id).producer;
      const Node& maker = old_.nodes[producer];
      const bool inside = group >= 0 && group_[producer] == group;
      if (!inside && !is_gathered(id)) continue;
      if (maker.op == Op::attention && selective_ && id == maker.outputs[0]) continue;
      node.inputs[i] = again;
    }
    return node;
  }

  const Graph& old_;
  Graph out_;
  bool selective_, prune_;
  std::vector<int> group_;  // per node of the old graph; -1: none
  std::vector<std::vector<const Node*>> forward_of_group_;
  std::vector<int> replaced_;  // per forward tensor: the recomputed one, or -1
};

}  // namespace

Graph recompute(Graph graph, const Plan& plan, const DeviceFacts& device) {
  if (plan.training.recompute_budget) return recompute_within_budget(graph, plan, device);
  if (recomputes_by_operation(plan.training))
    return recompute_operators(without_reuse(std::move(graph)));
  std::vector<int> groups = recomputed_groups(graph, plan);
  const bool none = std::ranges::all_of(groups, [](int group) { return group < 0; });
  if (none && graph.held != Held::rows) return graph;
  graph = without_reuse(std::move(graph));
  return Recomputation(graph, plan, std::move(groups)).run();
}

}  // namespace meshwright::compiler
