#include "models/passes/recompute.h"

#include <cmath>

namespace meshwright {

namespace {

// Block i is recomputed when the running sum of the fraction passes a whole number at it.
std::vector<char> chosen_units(const Graph& graph, double fraction) {
  std::vector<char> chosen(graph.units.size(), 0);
  int block = 0;
  for (std::size_t unit = 0; unit < graph.units.size(); ++unit) {
    if (!graph.units[unit].is_block) continue;
    constexpr double rounding = 1e-9;
    chosen[unit] =
        std::floor((block + 1) * fraction + rounding) > std::floor(block * fraction + rounding);
    ++block;
  }
  return chosen;
}

class Recomputation {
 public:
  Recomputation(const Graph& graph, const Plan& plan)
      : old_(graph),
        selective_(plan.training.recompute == Recompute::selective),
        prune_(plan.training.compiler == CompilerLevel::full),
        repeats_units_(plan.training.recompute != Recompute::none),
        chosen_(chosen_units(graph, plan.training.recompute_fraction)) {}

  Graph run() {
    out_ = old_;
    out_.nodes.clear();
    forward_of_unit_.resize(old_.units.size());
    replaced_.assign(old_.tensors.size(), -1);
    std::vector<char> begun(old_.units.size(), 0);
    for (const Node& node : old_.nodes) {
      const auto unit = static_cast<std::size_t>(old_.unit_of(node));
      if (node.phase == Phase::forward) {
        if (chosen_[unit]) forward_of_unit_[unit].push_back(&node);
        append(node);
        continue;
      }
      if (repeats_units_ && chosen_[unit] && !begun[unit]) {
        begun[unit] = 1;
        repeat(unit);
      }
      gather_again(node);
      append(rewired(node, unit));
    }
    return std::move(out_);
  }

 private:
  void append(const Node& node) {
    for (int id : node.outputs)
      if (out_.tensor(id).role == Role::activation)
        out_.tensors[static_cast<std::size_t>(id)].producer = static_cast<int>(out_.nodes.size());
    out_.nodes.push_back(node);
  }

  // The forward nodes whose results the unit's gradients read, and what those need from inside the
  // unit.
  std::vector<const Node*> needed(std::size_t unit) const {
    const auto& forward = forward_of_unit_[unit];
    if (selective_) {
      std::vector<const Node*> attention;
      for (const Node* node : forward)
        if (node->op == Op::attention) attention.push_back(node);
      return attention;
    }
    if (!prune_) return forward;
    std::vector<char> wanted(old_.tensors.size(), 0);
    for (const Node& node : old_.nodes)
      if (node.phase == Phase::backward && static_cast<std::size_t>(old_.unit_of(node)) == unit)
        for (int id : node.inputs) wanted[static_cast<std::size_t>(id)] = 1;
    std::vector<const Node*> kept;
    for (auto it = forward.rbegin(); it != forward.rend(); ++it) {
      bool want = false;
      for (int id : (*it)->outputs) want = want || wanted[static_cast<std::size_t>(id)];
      if (!want) continue;
      for (int id : (*it)->inputs) wanted[static_cast<std::size_t>(id)] = 1;
      kept.push_back(*it);
    }
    return {kept.rbegin(), kept.rend()};
  }

  void repeat(std::size_t unit) {
    for (const Node* node : needed(unit)) repeat(*node);
  }

  void repeat(const Node& node) {
    TensorIds inputs;
    for (int id : node.inputs) {
      const int again = replaced_[static_cast<std::size_t>(id)];
      inputs.push_back(again >= 0 ? again : id);
    }
    const int index = out_.add(node.op, node.module, inputs, node.attributes, Phase::recompute);
    for (int i = 0; i < node.outputs.size(); ++i)
      replaced_[static_cast<std::size_t>(node.outputs[i])] = out_.output(index, i);
  }

  // Where ranks hold shares of the rows, only those are kept: what was gathered is gathered again
  // for the gradient.
  void gather_again(const Node& node) {
    for (int id : node.inputs) {
      const int producer = old_.tensor(id).producer;
      if (producer < 0 || replaced_[static_cast<std::size_t>(id)] >= 0) continue;
      const Node& maker = old_.nodes[static_cast<std::size_t>(producer)];
      const bool is_input = old_.tensor(maker.inputs[0]).role == Role::input;  // small: kept
      if (maker.op == Op::sequence_gather && maker.phase == Phase::forward && !is_input)
        repeat(maker);
    }
  }

  // Gradients of the unit read the repeated tensors; selective keeps attention's output, which the
  // projection after it has saved anyway.
  Node rewired(Node node, std::size_t unit) const {
    for (int i = 0; i < node.inputs.size(); ++i) {
      const int id = node.inputs[i];
      if (id >= static_cast<int>(replaced_.size())) continue;
      const int again = replaced_[static_cast<std::size_t>(id)];
      if (again < 0) continue;
      const Node& maker = old_.nodes[static_cast<std::size_t>(old_.tensor(id).producer)];
      if (static_cast<std::size_t>(old_.unit_of(maker)) != unit) continue;
      if (maker.op == Op::attention && selective_ && id == maker.outputs[0]) continue;
      node.inputs[i] = again;
    }
    return node;
  }

  const Graph& old_;
  Graph out_;
  bool selective_, prune_, repeats_units_;
  std::vector<char> chosen_;
  std::vector<std::vector<const Node*>> forward_of_unit_;
  std::vector<int> replaced_;  // forward tensor -> its repetition
};

}  // namespace

Graph recompute(Graph graph, const Plan& plan) {
  const bool none =
      plan.training.recompute == Recompute::none || plan.training.recompute_fraction <= 0;
  if (none && graph.held != Held::rows) return graph;
  return Recomputation(graph, plan).run();
}

}  // namespace meshwright
