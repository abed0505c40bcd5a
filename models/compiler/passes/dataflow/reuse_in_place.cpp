#include "models/compiler/passes/dataflow/reuse_in_place.h"

#include "models/compiler/passes/graph/cleanup.h"
#include "models/compiler/schedule/schedule.h"
#include "models/program/graph/op_table.h"

namespace meshwright::compiler {

namespace {

class InPlace {
 public:
  InPlace(Graph& graph, const Plan& plan)
      : graph_(graph),
        splits_(schedule_info(plan.parallelism.schedule).splits_backwards),
        last_reader_(graph.tensors.size(), -1),
        taken_(graph.tensors.size(), 0) {
    for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) {
      const Node& node = graph.nodes[i];
      for (int id : node.inputs) last_reader_[id] = i;
      if (!info(node.op).communication) continue;
      // A collective may still run while the nodes after it run, so its tensors are not shared.
      for (int id : node.inputs) taken_[id] = 1;
      for (int id : node.outputs) taken_[id] = 1;
    }
    for (std::size_t id = 0; id < graph.tensors.size(); ++id)
      if (graph.tensors[id].alias_of >= 0) taken_[id] = taken_[graph.tensors[id].alias_of] = 1;
  }

  void run() {
    for (int i = 0; i < static_cast<int>(graph_.nodes.size()); ++i) {
      const Node& node = graph_.nodes[i];
      if (!info(node.op).in_place) continue;
      for (int id : node.inputs) {
        if (!can_be_replaced(i, id, node.outputs[0])) continue;
        graph_.tensors[node.outputs[0]].alias_of = id;
        taken_[id] = taken_[node.outputs[0]] = 1;
        break;
      }
    }
  }

 private:
  // Returns whether node `reader` may write its output over its input. Both tensors must live in
  // one task only: the nodes that make them and read them last belong to one unit, and are all
  // forward nodes or all later ones.
  bool can_be_replaced(int reader, int input, int output) const {
    const Tensor &in = graph_.tensor(input), &out = graph_.tensor(output);
    if (in.role != Role::activation || in.producer < 0 || !(in.type == out.type) || taken_[input] ||
        taken_[output] || last_reader_[input] != reader || is_loss(graph_, input) ||
        last_reader_[output] < 0)
      return false;
    // If the schedule splits backwards, gradients of weights run in a later task than other
    // backward nodes and read the same tensors, so these may not be overwritten.
    if (splits_ && graph_.nodes[reader].phase != Phase::forward) return false;
    return alike(in.producer, reader) && alike(reader, last_reader_[output]);
  }

  bool alike(int a, int b) const {
    const Node &one = graph_.nodes[a], &other = graph_.nodes[b];
    return graph_.unit_of(one) == graph_.unit_of(other) &&
           (one.phase == Phase::forward) == (other.phase == Phase::forward);
  }

  Graph& graph_;
  bool splits_;  // the schedule splits backwards
  std::vector<int> last_reader_;
  std::vector<char> taken_;  // per tensor: whether it shares its memory already, or must not
};

}  // namespace

Graph reuse_in_place(Graph graph, const Plan& plan) {
  InPlace(graph, plan).run();
  return graph;
}

}  // namespace meshwright::compiler
