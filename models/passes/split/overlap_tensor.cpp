#include "models/passes/split/overlap_tensor.h"

#include <algorithm>
#include <ranges>

#include "models/core/index.h"
#include "models/graph/fusion.h"
#include "models/graph/op_table.h"
#include "models/passes/graph/cleanup.h"

namespace meshwright {

namespace {

// What a node has to do with the collectives around it.
enum class Part : std::uint8_t {
  path,        // what comes after it needs it
  on_the_way,  // makes the gradient of a product's input
  collective,
  gather,  // a collective that gradients of parameters alone wait for
  weights  // gradients of parameters need it and nothing else does
};

class Reordering {
 public:
  Reordering(const Graph& graph, bool of_tensor, bool of_experts)
      : graph_(graph),
        of_tensor_(of_tensor),
        of_experts_(of_experts),
        for_weights_alone_(graph.tensors.size(), 1) {
    for (const Node& node : std::views::reverse(graph.nodes))
      if (!for_weights(node))
        for (int id : node.inputs) for_weights_alone_[at(id)] = 0;
  }

  std::vector<Node> run() {
    for (int i = 0; i < static_cast<int>(graph_.nodes.size()); ++i) {
      if (i == 0 || !alike(i - 1, i)) put_off_no_longer();
      place(i);
    }
    put_off_no_longer();
    return std::move(ordered_);
  }

 private:
  const Node& node(int i) const { return graph_.nodes[at(i)]; }

  // Nodes that may change places: of one unit's backward.
  bool alike(int a, int b) const {
    return graph_.unit_of(node(a)) == graph_.unit_of(node(b)) &&
           (node(a).phase == Phase::forward) == (node(b).phase == Phase::forward);
  }

  bool goes_beside(Op op) const {
    const Communication::Over over = info(op).communication.over;
    return (of_tensor_ && over == Communication::Over::tensor) ||
           (of_experts_ && over == Communication::Over::expert);
  }

  bool only_parameter_gradients(const Node& node) const {
    return !node.outputs.empty() && std::ranges::all_of(node.outputs, [&](int id) {
      return graph_.tensor(id).role == Role::parameter_gradient;
    });
  }

  // Makes gradients of parameters, or a factor of one as columns (after its readers are known).
  bool for_weights(const Node& node) const {
    return only_parameter_gradients(node) ||
           (node.op == Op::transpose && for_weights_alone_[at(node.outputs[0])]);
  }

  bool is_on_the_way(const Node& node) const {
    const bool elsewhere = std::ranges::any_of(node.outputs, [&](int id) {
      return graph_.tensor(id).role != Role::activation || graph_.tensor(id).alias_of >= 0;
    });
    if (elsewhere) return false;
    if (node.op != Op::fused) return info(node.op).makes_input_gradient;
    return std::ranges::all_of(node.attributes.fusion->steps, [](const FusedStep& step) {
      return info(step.op).makes_input_gradient;
    });
  }

  Part part_of(const Node& node) const {
    if (node.phase == Phase::forward) return Part::path;
    if (goes_beside(node.op))
      return for_weights_alone_[at(node.outputs[0])] ? Part::gather : Part::collective;
    if (for_weights(node)) return Part::weights;
    return is_on_the_way(node) ? Part::on_the_way : Part::path;
  }

  void place(int i) {
    switch (part_of(node(i))) {
      case Part::weights:
        put_off_.push_back(i);
        return;
      case Part::gather:
        return place_gather(i);
      case Part::collective:
        ordered_.push_back(node(i));
        return put_off_no_longer();
      case Part::on_the_way:
        if (way_begins_ < 0) {
          way_begins_ = static_cast<int>(ordered_.size());
          way_begins_at_ = i;
        }
        ordered_.push_back(node(i));
        return;
      case Part::path:
        put_off_no_longer();
        ordered_.push_back(node(i));
    }
  }

  // Before the products on the way, unless one of them makes what it gathers.
  void place_gather(int i) {
    const bool is_there =
        way_begins_ >= 0 && graph_.tensor(node(i).inputs[0]).producer < way_begins_at_;
    if (!is_there) return ordered_.push_back(node(i));
    ordered_.insert(ordered_.begin() + way_begins_, node(i));
    ++way_begins_;
  }

  void put_off_no_longer() {
    for (int i : put_off_) ordered_.push_back(node(i));
    put_off_.clear();
    way_begins_ = -1;
  }

  const Graph& graph_;
  const bool of_tensor_, of_experts_;    // whose collectives go beside compute
  std::vector<char> for_weights_alone_;  // per tensor: only gradients of parameters read it
  std::vector<Node> ordered_;
  std::vector<int> put_off_;  // gradients of weights that wait for a collective to go beside
  int way_begins_ = -1;       // in `ordered_`, -1: not on the way to a collective
  int way_begins_at_ = 0;     // in the graph
};

}  // namespace

Graph overlap_tensor(Graph graph, const Plan& plan) {
  const Parallelism& p = plan.parallelism;
  const bool of_tensor = p.tensor > 1 && p.overlap_tensor;
  const bool of_experts = p.expert > 1 && p.overlap_expert;
  if (!of_tensor && !of_experts) return graph;
  graph.nodes = Reordering(graph, of_tensor, of_experts).run();
  return cleaned(std::move(graph));
}

}  // namespace meshwright
