#include "models/lower/relay.h"

#include <algorithm>
#include <vector>

#include "models/core/index.h"
#include "models/passes/graph/cleanup.h"

namespace meshwright {

namespace {

class Relay {
 public:
  Relay(Graph graph, const Plan& plan)
      : graph_(std::move(graph)),
        after_(graph_.nodes.size()),
        several_chunks_(plan.parallelism.virtual_stages > 1) {
    for (const Node& node : graph_.nodes)
      stage_.push_back(plan.stage_of_unit[at(graph_.unit_of(node))]);
  }

  Graph run() {
    const int nodes = static_cast<int>(graph_.nodes.size());
    readers_.resize(graph_.tensors.size());
    for (int i = 0; i < nodes; ++i)
      for (int id : graph_.nodes[at(i)].inputs) readers_[at(id)].push_back(i);
    bool relays = false;
    for (int id = 0; id < static_cast<int>(readers_.size()); ++id) relays = pass_on(id) || relays;
    if (!relays) return std::move(graph_);
    std::vector<Node> all;
    for (int i = 0; i < nodes; ++i) {
      all.push_back(std::move(graph_.nodes[at(i)]));
      all.insert(all.end(), after_[at(i)].begin(), after_[at(i)].end());
    }
    graph_.nodes = std::move(all);
    return cleaned(std::move(graph_));
  }

 private:
  // Whether it is copied: where a stage that is no neighbour reads it; and where stages have
  // several chunks and its own stage keeps it, for these may share slots, out of which nothing is
  // sent.
  bool pass_on(int tensor) {
    const std::vector<int>& readers = readers_[at(tensor)];
    const int maker = graph_.tensor(tensor).producer;
    if (graph_.tensor(tensor).role != Role::activation || maker < 0) return false;
    const bool forward = graph_.nodes[at(maker)].phase == Phase::forward;
    const int step = forward ? 1 : -1;
    int farthest = 0;
    for (int reader : readers)
      farthest = std::max(farthest, step * (stage_[at(reader)] - stage_[at(maker)]));
    const bool is_copied =
        several_chunks_ && forward && farthest > 0 && is_kept(tensor, stage_[at(maker)]);
    int here = tensor;  // as it comes to the stage that is `away`
    if (is_copied) here = copy_on(stage_[at(maker)], tensor, forward);
    for (int away = 1; away <= farthest; ++away) {
      const int stage = stage_[at(maker)] + step * away;
      for (int reader : readers)
        if (stage_[at(reader)] == stage)
          for (int& id : graph_.nodes[at(reader)].inputs)
            if (id == tensor) id = here;
      if (away < farthest) here = copy_on(stage, here, forward);
    }
    return farthest > 1 || is_copied;
  }

  // Whether the stage reads it, or a view of it, in the backward.
  bool is_kept(int tensor, int stage) const {
    return std::ranges::any_of(readers_[at(tensor)], [&](int reader) {
      const Node& node = graph_.nodes[at(reader)];
      if (stage_[at(reader)] != stage) return false;
      return node.phase != Phase::forward ||
             (node.op == Op::tensor_copy && is_kept(node.outputs[0], stage));
    });
  }

  // After all that the stage does in the forward, or in the backward: messages leave in the order
  // of their tensors, of which this is a new one.
  int copy_on(int stage, int tensor, bool forward) {
    std::size_t last = graph_.nodes.size() - 1;
    while (stage_[last] != stage || (graph_.nodes[last].phase == Phase::forward) != forward) --last;
    const Node& beside = graph_.nodes[last];
    Node copy;
    copy.op = Op::scale;
    copy.attributes.factor = 1;
    copy.module = beside.module;
    copy.phase = forward ? Phase::forward : Phase::backward;
    copy.inputs = {tensor};
    const int passed = graph_.add_tensor(graph_.tensor(tensor).type, Role::activation);
    copy.outputs = {passed};
    after_[last].push_back(copy);
    return passed;
  }

  Graph graph_;
  std::vector<std::vector<int>> readers_;  // per tensor: nodes
  std::vector<std::vector<Node>> after_;   // per node: what comes after it
  std::vector<int> stage_;                 // per node: its virtual stage
  bool several_chunks_;
};

}  // namespace

Graph relay(Graph graph, const Plan& plan) { return Relay(std::move(graph), plan).run(); }

}  // namespace meshwright
