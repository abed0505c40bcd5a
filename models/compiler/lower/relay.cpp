#include "models/compiler/lower/relay.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "models/compiler/passes/graph/cleanup.h"

namespace meshwright::compiler {

namespace {

class Relay {
 public:
  Relay(const Graph& graph, const Plan& plan)
      : old_(graph),
        readers_(graph.tensors.size()),
        after_(graph.nodes.size()),
        several_chunks_(plan.parallelism.virtual_stages > 1) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      stage_.push_back(plan.stage_of_unit[graph.unit_of(graph.nodes[i])]);
      for (int id : graph.nodes[i].inputs) readers_[id].push_back(static_cast<int>(i));
    }
  }

  std::optional<Graph> run() {
    for (int id = 0; id < static_cast<int>(readers_.size()); ++id) pass_on(id);
    if (!out_) return {};
    std::vector<Node> all;
    for (std::size_t i = 0; i < after_.size(); ++i) {
      all.push_back(std::move(out_->nodes[i]));
      all.insert(all.end(), after_[i].begin(), after_[i].end());
    }
    out_->nodes = std::move(all);
    return cleaned(*std::move(out_));
  }

 private:
  const Node& node(int i) const { return old_.nodes[i]; }
  bool is_forward(int i) const { return node(i).phase == Phase::forward; }
  Graph& out() {
    if (!out_) out_ = old_;
    return *out_;
  }

  // Copies a tensor from stage to stage if a virtual stage that is no neighbour reads it. If stages
  // have several chunks, also copies a tensor that its own stage keeps for the backward, because
  // chunks may share slots, and nothing is sent from a shared slot.
  void pass_on(int tensor) {
    const std::vector<int>& readers = readers_[tensor];
    const int maker = old_.tensor(tensor).producer;
    if (old_.tensor(tensor).role != Role::activation || maker < 0) return;
    const bool forward = is_forward(maker);
    const int step = forward ? 1 : -1, from = stage_[maker];
    int farthest = 0;
    for (int reader : readers) farthest = std::max(farthest, step * (stage_[reader] - from));
    const bool is_copied = several_chunks_ && forward && farthest > 0 && is_kept(tensor, from);
    if (farthest < 2 && !is_copied) return;
    int here = tensor;  // the tensor as it comes to the stage that is `away` stages off
    if (is_copied) here = copy_on(from, tensor, forward);
    for (int away = 1; away <= farthest; ++away) {
      const int stage = from + step * away;
      for (int reader : readers)
        if (stage_[reader] == stage)
          for (int& id : out().nodes[reader].inputs)
            if (id == tensor) id = here;
      if (away < farthest) here = copy_on(stage, here, forward);
    }
  }

  // Returns whether the stage reads the tensor, or a view of it, in the backward.
  bool is_kept(int tensor, int stage) const {
    return std::ranges::any_of(readers_[tensor], [&](int reader) {
      if (stage_[reader] != stage) return false;
      return !is_forward(reader) ||
             (node(reader).op == Op::tensor_copy && is_kept(node(reader).outputs[0], stage));
    });
  }

  // Returns the last node of the stage in the forward or in the backward, or -1 if there is none.
  int last_of(int stage, bool forward) const {
    int last = static_cast<int>(stage_.size()) - 1;
    while (last >= 0 && (stage_[last] != stage || is_forward(last) != forward)) --last;
    return last;
  }

  // Adds a copy after everything that the stage does in the forward or in the backward, and returns
  // the copy. It comes last because messages leave in the order of their tensors, and this tensor
  // is new. If a stage does nothing in the backward (frozen embeddings), the copy comes after the
  // nodes of the next stage that does.
  int copy_on(int stage, int tensor, bool forward) {
    int last = last_of(stage, forward);
    const int module = node(last >= 0 ? last : last_of(stage, true)).module;
    for (int before = stage + 1; last < 0; ++before) last = last_of(before, forward);
    Node copy;
    copy.op = Op::scale;
    copy.attributes.factor = 1;
    copy.module = module;
    copy.phase = forward ? Phase::forward : Phase::backward;
    copy.inputs = {tensor};
    const int passed = out().add_tensor(out().tensor(tensor).type, Role::activation);
    copy.outputs = {passed};
    after_[last].push_back(copy);
    return passed;
  }

  const Graph& old_;
  std::optional<Graph> out_;
  std::vector<std::vector<int>> readers_;  // per tensor: nodes
  std::vector<std::vector<Node>> after_;   // per node: copies that are added after it
  std::vector<int> stage_;                 // per node: its virtual stage
  bool several_chunks_;
};

}  // namespace

std::optional<Graph> relay(const Graph& graph, const Plan& plan) {
  return Relay(graph, plan).run();
}

}  // namespace meshwright::compiler
