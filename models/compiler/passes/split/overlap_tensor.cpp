#include "models/compiler/passes/split/overlap_tensor.h"

#include <algorithm>
#include <ranges>

#include "models/compiler/passes/graph/cleanup.h"
#include "models/program/graph/fusion.h"
#include "models/program/graph/op_table.h"

namespace meshwright::compiler {

namespace {

// The relation of a node to the collectives around it.
enum class Part : std::uint8_t {
  path,        // the nodes after it need it
  on_the_way,  // makes the gradient of a matmul's input
  collective,
  gather,  // a collective that only gradients of parameters need
  weights  // only gradients of parameters need it, or it makes them
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
        for (int id : node.inputs) for_weights_alone_[id] = 0;
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
  const Node& node(int i) const { return graph_.nodes[i]; }

  // Returns whether two nodes may change places: both are of one unit, and either both forward or
  // both of later phases.
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

  // Returns whether the node makes only gradients of parameters, or transposes a factor that only
  // such nodes read.
  bool for_weights(const Node& node) const {
    return only_parameter_gradients(node) ||
           (node.op == Op::transpose && for_weights_alone_[node.outputs[0]]);
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
      return for_weights_alone_[node.outputs[0]] ? Part::gather : Part::collective;
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

  // Places a gather before the matmuls that compute gradients of inputs up to the next collective,
  // so that it overlaps with them. If one of these matmuls makes the tensor that it gathers, the
  // gather stays after them.
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
  const bool of_tensor_, of_experts_;    // groups whose collectives overlap
  std::vector<char> for_weights_alone_;  // per tensor: whether only nodes for_weights() read it
  std::vector<Node> ordered_;
  // Gradients of weights that are deferred until a collective overlaps with them.
  std::vector<int> put_off_;
  int way_begins_ = -1;    // where nodes on_the_way begin in `ordered_`, -1: none
  int way_begins_at_ = 0;  // where they begin in the graph
};

// Returns the end of the run of nodes of one unit and phase that begins at `begin`.
std::size_t end_of_alike(const Graph& graph, std::size_t begin) {
  const Node& first = graph.nodes[begin];
  std::size_t end = begin + 1;
  while (end < graph.nodes.size() && graph.nodes[end].phase == first.phase &&
         graph.unit_of(graph.nodes[end]) == graph.unit_of(first))
    ++end;
  return end;
}

// In each phase of a unit, moves the nodes that are independent of the first expert all-to-all
// (shared experts, in the backward also the router) directly after it, so that they overlap with
// it.
class BesideExchanges {
 public:
  explicit BesideExchanges(const Graph& graph) : graph_(graph) {}

  std::vector<Node> run() {
    for (std::size_t begin = 0; begin < graph_.nodes.size();) {
      const std::size_t end = end_of_alike(graph_, begin);
      std::size_t exchange = begin;
      while (exchange < end &&
             info(graph_.nodes[exchange].op).communication.over != Communication::Over::expert)
        ++exchange;
      reorder(begin, exchange, end);
      begin = end;
    }
    return std::move(ordered_);
  }

 private:
  enum class Place : std::uint8_t { before, beside, after };

  void reorder(std::size_t begin, std::size_t exchange, std::size_t end) {
    std::vector<Place> places(end - begin, Place::beside);
    const auto place = [&](std::size_t i) -> Place& { return places[i - begin]; };
    std::vector<char> wanted(graph_.tensors.size(), 0), made(graph_.tensors.size(), 0);
    if (exchange == end) std::ranges::fill(places, Place::before);
    for (std::size_t i = std::min(exchange + 1, end); i-- > begin && exchange < end;) {
      const Node& node = graph_.nodes[i];
      if (i == exchange || any_of(node.outputs, wanted)) {
        place(i) = Place::before;
        mark(node.inputs, wanted);
      }
    }
    for (std::size_t i = exchange; i < end; ++i) {
      const Node& node = graph_.nodes[i];
      if (i != exchange && !any_of(node.inputs, made)) continue;
      if (i != exchange) place(i) = Place::after;
      mark(node.outputs, made);
    }
    for (const Place each : {Place::before, Place::beside, Place::after})
      for (std::size_t i = begin; i < end; ++i)
        if (place(i) == each) ordered_.push_back(graph_.nodes[i]);
  }

  static bool any_of(const TensorIds& ids, const std::vector<char>& marked) {
    return std::ranges::any_of(ids, [&](int id) { return marked[id] != 0; });
  }
  static void mark(const TensorIds& ids, std::vector<char>& marked) {
    for (int id : ids) marked[id] = 1;
  }

  const Graph& graph_;
  std::vector<Node> ordered_;
};

}  // namespace

Graph overlap_tensor(Graph graph, const Plan& plan) {
  const Parallelism& p = plan.parallelism;
  const bool of_tensor = p.tensor > 1 && p.overlap_tensor;
  const bool of_experts = p.expert > 1 && p.overlap_expert;
  if (!of_tensor && !of_experts) return graph;
  if (of_experts) graph.nodes = BesideExchanges(graph).run();
  graph.nodes = Reordering(graph, of_tensor, of_experts).run();
  return cleaned(std::move(graph));
}

}  // namespace meshwright::compiler
