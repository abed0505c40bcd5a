#include "models/compiler/passes/dataflow/rematerialize_tensors.h"

#include <utility>

#include "models/core/error.h"

namespace meshwright::compiler {

namespace {

class TensorRepetition {
 public:
  TensorRepetition(const Graph& graph, std::vector<char> chosen)
      : old_(graph),
        chosen_(std::move(chosen)),
        repeated_(graph.nodes.size(), 0),
        again_(graph.tensors.size(), -1) {
    MESHWRIGHT_CHECK(chosen_.size() == graph.tensors.size(), "one choice per tensor");
    for (const Node& node : graph.nodes) {
      if (node.phase != Phase::forward) continue;
      if (node.op == Op::tensor_copy)
        chosen_[node.outputs[0]] = chosen_[base_of(graph, node.outputs[0])];
      if (node.op == Op::tensor_reduce) chosen_[node.inputs[0]] = chosen_[node.outputs[0]];
    }
  }

  Graph run() {
    out_ = old_;
    out_.nodes.clear();
    for (const Node& node : old_.nodes) {
      if (node.phase != Phase::forward)
        for (int id : node.inputs)
          if (chosen_[id]) make(id);
      append(node);
    }
    return std::move(out_);
  }

 private:
  void append(Node node) {
    for (int id : node.outputs) {
      Tensor& made = out_.tensors[id];
      if (is_made(made)) made.producer = static_cast<int>(out_.nodes.size());
      if (made.alias_of >= 0 && again_[made.alias_of] >= 0) made.alias_of = again_[made.alias_of];
    }
    if (node.phase != Phase::forward)
      for (int& id : node.inputs)
        if (again_[id] >= 0) id = again_[id];
    out_.nodes.push_back(std::move(node));
  }

  void make(int tensor) {
    const int producer = old_.tensor(tensor).producer;
    MESHWRIGHT_CHECK(producer >= 0 && old_.nodes[producer].phase == Phase::forward,
                     "only what the forward phase makes is made again");
    if (std::exchange(repeated_[producer], char{1})) return;
    const Node& maker = old_.nodes[producer];
    TensorIds inputs;
    for (int id : maker.inputs) {
      if (chosen_[id]) make(id);
      inputs.push_back(chosen_[id] ? again_[id] : id);
    }
    const int node = out_.add(maker.op, maker.module, inputs, maker.attributes, Phase::recompute);
    for (int i = 0; i < maker.outputs.size(); ++i)
      if (chosen_[maker.outputs[i]]) again_[maker.outputs[i]] = out_.output(node, i);
  }

  const Graph& old_;
  Graph out_;
  std::vector<char> chosen_;    // per tensor of the old graph
  std::vector<char> repeated_;  // per node of the old graph
  std::vector<int> again_;      // per tensor of the old graph: the recomputed tensor, or -1
};

}  // namespace

int base_of(const Graph& graph, int tensor) {
  for (;;) {
    const Tensor& each = graph.tensor(tensor);
    if (each.alias_of >= 0) {
      tensor = each.alias_of;
      continue;
    }
    if (each.producer < 0) return tensor;
    const Node& maker = graph.nodes[each.producer];
    if (maker.op != Op::tensor_copy) return tensor;
    tensor = maker.inputs[0];
  }
}

Graph rematerialize_tensors(const Graph& graph, std::vector<char> chosen) {
  return TensorRepetition(graph, std::move(chosen)).run();
}

}  // namespace meshwright::compiler
