#include "models/compiler/passes/dataflow/order_operations.h"

#include <algorithm>
#include <map>

#include "models/compiler/passes/graph/cleanup.h"
#include "models/program/graph/op_table.h"

namespace meshwright::compiler {

namespace {

// A range of consecutive nodes that may be reordered. They belong to one unit, and are either all
// forward or all of later phases.
struct Segment {
  int begin = 0, end = 0;
};

std::vector<Segment> segments_of(const Graph& graph) {
  std::vector<Segment> segments;
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) {
    const Node& node = graph.nodes[i];
    const auto alike = [&](const Node& before) {
      return graph.unit_of(before) == graph.unit_of(node) &&
             (before.phase == Phase::forward) == (node.phase == Phase::forward);
    };
    if (segments.empty() || !alike(graph.nodes[i - 1])) segments.push_back({i, i});
    segments.back().end = i + 1;
  }
  return segments;
}

// Orders one segment, from the dependencies of its nodes and the way in which they change the live
// memory.
class Order {
 public:
  Order(const Graph& graph, const Segment& segment, const std::vector<int>& uses)
      : graph_(graph),
        begin_(segment.begin),
        count_(segment.end - segment.begin),
        followers_(count_),
        open_(count_, 0) {
    find_dependencies();
    find_passing(uses);
  }

  // Returns the nodes in a greedy order: among the nodes that can run, the one after which least
  // memory is live comes first. Equal ones keep their previous order.
  std::vector<int> best() {
    std::vector<int> order, ready;
    std::vector<int> open = open_;
    std::map<int, int> reads = reads_;
    for (int i = 0; i < count_; ++i)
      if (open[i] == 0) ready.push_back(i);
    while (!ready.empty()) {
      const auto next = std::ranges::min_element(ready, [&](int a, int b) {
        const auto cost = [&](int i) { return change(i, reads); };
        const std::int64_t of_a = cost(a), of_b = cost(b);
        return of_a != of_b ? of_a < of_b : a < b;
      });
      const int chosen = *next;
      ready.erase(next);
      for (int id : node(chosen).inputs)
        if (const auto found = reads.find(id); found != reads.end()) --found->second;
      order.push_back(chosen);
      for (int follower : followers_[chosen])
        if (--open[follower] == 0) ready.push_back(follower);
    }
    return order;
  }

  std::int64_t peak(const std::vector<int>& order) const {
    std::map<int, int> reads = reads_;
    std::int64_t live = 0, most = 0;
    for (int i : order) {
      for (int id : node(i).outputs)
        if (reads_.contains(id)) live += bytes(id);
      most = std::max(most, live);
      for (int id : node(i).inputs)
        if (const auto found = reads.find(id); found != reads.end() && --found->second == 0)
          live -= bytes(id);
    }
    return most;
  }

 private:
  const Node& node(int i) const { return graph_.nodes[begin_ + i]; }
  std::int64_t bytes(int id) const { return graph_.tensor(id).type.bytes(); }

  void after(int earlier, int later) {
    followers_[earlier].push_back(later);
    ++open_[later];
  }

  // Finds which nodes must come before which. A node that makes a tensor comes before its readers.
  // Nodes that add to one gradient keep their order, and so do collectives. A node that overwrites
  // a tensor stays after earlier nodes that read or write its memory.
  void find_dependencies() {
    std::map<int, int> last_sum;
    std::map<int, std::vector<int>> touched;  // by the tensor whose memory is read or written
    int last_collective = -1;
    const auto memory_of = [&](int id) {
      while (graph_.tensor(id).alias_of >= 0) id = graph_.tensor(id).alias_of;
      return id;
    };
    for (int i = 0; i < count_; ++i) {
      for (int id : node(i).inputs) {
        const int producer = graph_.tensor(id).producer - begin_;
        if (producer >= 0 && producer < i) after(producer, i);
      }
      for (int id : node(i).outputs) {
        if (graph_.tensor(id).role == Role::parameter_gradient) {
          const auto [found, is_new] = last_sum.try_emplace(id, i);
          if (!is_new && found->second != i) after(found->second, i);
          found->second = i;
        }
        if (graph_.tensor(id).alias_of >= 0)
          for (int reader : touched[memory_of(id)])
            if (reader != i) after(reader, i);
      }
      for (int id : node(i).inputs) touched[memory_of(id)].push_back(i);
      for (int id : node(i).outputs) touched[memory_of(id)].push_back(i);
      if (info(node(i).op).communication) {
        if (last_collective >= 0) after(last_collective, i);
        last_collective = i;
      }
    }
  }

  // Finds the activations that only this segment makes and reads, with the number of their reads.
  void find_passing(const std::vector<int>& uses) {
    std::map<int, int> reads;
    for (int i = 0; i < count_; ++i)
      for (int id : node(i).inputs) ++reads[id];
    for (int i = 0; i < count_; ++i)
      for (int id : node(i).outputs) {
        const Tensor& tensor = graph_.tensor(id);
        if (tensor.role == Role::activation && tensor.alias_of < 0 && reads[id] > 0 &&
            reads[id] == uses[id])
          reads_[id] = reads[id];
      }
  }

  // Returns by how many bytes the live memory grows with node i. A negative result means that it
  // shrinks. `reads` holds how often each tensor will still be read.
  std::int64_t change(int i, const std::map<int, int>& reads) const {
    std::int64_t bytes_more = 0;
    for (int id : node(i).outputs)
      if (reads_.contains(id)) bytes_more += bytes(id);
    for (int k = 0; k < node(i).inputs.size(); ++k) {
      const int id = node(i).inputs[k];
      const auto found = reads.find(id);
      if (found == reads.end()) continue;
      const auto times = std::ranges::count(node(i).inputs, id);
      const bool first = std::ranges::find(node(i).inputs, id) == node(i).inputs.begin() + k;
      if (first && found->second == times) bytes_more -= bytes(id);
    }
    return bytes_more;
  }

  const Graph& graph_;
  int begin_, count_;
  std::vector<std::vector<int>> followers_;
  std::vector<int> open_;     // per node: how many nodes must come before it
  std::map<int, int> reads_;  // tensors that only this segment makes and reads -> number of reads
};

std::vector<int> as_it_is(int count) {
  std::vector<int> order;
  for (int i = 0; i < count; ++i) order.push_back(i);
  return order;
}

}  // namespace

std::int64_t peak_of_order(const Graph& graph, int begin, int end) {
  return Order(graph, {begin, end}, count_uses(graph)).peak(as_it_is(end - begin));
}

Graph order_operations(Graph graph, const Plan&) {
  const std::vector<int> uses = count_uses(graph);
  std::vector<int> places;  // of the nodes, in their new order
  bool any = false;
  for (const Segment& segment : segments_of(graph)) {
    Order of_segment(graph, segment, uses);
    std::vector<int> order = as_it_is(segment.end - segment.begin);
    const std::vector<int> found = of_segment.best();
    if (of_segment.peak(found) < of_segment.peak(order)) {
      order = found;
      any = true;
    }
    for (int i : order) places.push_back(segment.begin + i);
  }
  if (!any) return graph;
  std::vector<Node> nodes;
  nodes.reserve(places.size());
  for (int place : places) nodes.push_back(std::move(graph.nodes[place]));
  graph.nodes = std::move(nodes);
  return cleaned(std::move(graph));
}

}  // namespace meshwright::compiler
