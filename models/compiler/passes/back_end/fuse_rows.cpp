#include "models/compiler/passes/back_end/fuse_rows.h"

#include <algorithm>

#include "models/compiler/passes/back_end/fuse.h"
#include "models/compiler/passes/graph/cleanup.h"
#include "models/program/graph/op_table.h"

namespace meshwright::compiler {

namespace {

// The most rows of a block. The CPU backend sums columns in groups of the same number of rows
// (exec/backends/cpu/column_sum.h).
constexpr std::int64_t most_block_rows = 64;

// Returns the largest power of two up to most_block_rows such that a block of this many rows takes
// at most fused_block_bytes, or 0 if even one row takes more.
std::int64_t rows_per_block(const Fusion& fusion) {
  for (std::int64_t rows = most_block_rows; rows > 0; rows /= 2)
    if (block_bytes(fusion, rows) <= fused_block_bytes) return rows;
  return 0;
}

bool in_forward(const Node& node) { return node.phase == Phase::forward; }

// Groups nodes into clusters that are fused. A node joins the cluster of an earlier node, and then
// runs at the position of that cluster's first member. Its inputs from outside the cluster must
// therefore be made before that position.
class Clusters {
 public:
  explicit Clusters(const Graph& graph)
      : graph_(graph),
        uses_(count_uses(graph)),
        of_node_(graph.nodes.size(), -1),
        overwrites_(graph.tensors.size(), 0) {
    for (std::size_t id = 0; id < graph.tensors.size(); ++id)
      if (graph.tensors[id].alias_of >= 0)
        overwrites_[id] = overwrites_[graph.tensors[id].alias_of] = 1;
    readers_.resize(graph.tensors.size());
    for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) add(i);
  }

  // Returns the nodes of the fused graph, which read and write the tensors of the graph.
  std::vector<Node> fused() const {
    std::vector<Node> nodes;
    nodes.reserve(graph_.nodes.size());
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const int cluster = of_node_[i];
      if (cluster < 0) {
        nodes.push_back(graph_.nodes[i]);
      } else if (clusters_[cluster].front() == static_cast<int>(i)) {
        nodes.push_back(node_of(clusters_[cluster]));
      }
    }
    return nodes;
  }

 private:
  bool can_be_fused(const Node& node) const {
    const RowRule& rule = info(node.op).rows;
    // Operations on packed documents count rows in documents, which blocks of rows do not fit, so
    // they are not fused.
    if (!rule || (rule.product && !leads(node)) || node.attributes.documents) return false;
    return std::ranges::all_of(node.outputs,
                               [&](int id) {
                                 const Tensor& tensor = graph_.tensor(id);
                                 const bool wide = tensor.type.dtype == Dtype::f32 ||
                                                   tensor.type.dtype == Dtype::f64;
                                 return overwrites_[id] == 0 &&
                                        (tensor.role != Role::parameter_gradient || wide);
                               }) &&
           std::ranges::none_of(node.inputs, [&](int id) { return overwrites_[id] != 0; });
  }

  // Returns whether the node is a matmul that can have an epilogue. Matmuls of quantized tensors
  // cannot have one yet.
  bool leads(const Node& node) const {
    return (node.op == Op::linear || node.op == Op::linear_grad_input) &&
           !is_quantized(graph_.tensor(node.inputs[0]).type.dtype);
  }

  bool is_member(const std::vector<int>& cluster, int node) const {
    return std::ranges::find(cluster, node) != cluster.end();
  }

  // Returns whether the node can be part of a matmul's epilogue: it works element by element and
  // reads a tensor that the cluster makes.
  bool is_epilogue(const Node& node, const std::vector<int>& cluster) const {
    return info(node.op).rows.epilogue && std::ranges::any_of(node.inputs, [&](int id) {
             return is_member(cluster, graph_.tensor(id).producer);
           });
  }

  std::int64_t rows_of(const Node& node) const {
    return graph_.tensor(node.inputs[0]).type.shape[0];
  }

  bool can_join(const Node& node, const std::vector<int>& cluster) const {
    const Node& first = graph_.nodes[cluster.front()];
    if (graph_.unit_of(node) != graph_.unit_of(first) || in_forward(node) != in_forward(first) ||
        rows_of(node) != rows_of(first) || (leads(first) && !is_epilogue(node, cluster)))
      return false;
    const bool made_before = std::ranges::all_of(node.inputs, [&](int id) {
      const int producer = graph_.tensor(id).producer;
      return producer < cluster.front() || is_member(cluster, producer);
    });
    if (!made_before) return false;
    std::vector<int> larger = cluster;
    larger.push_back(static_cast<int>(&node - graph_.nodes.data()));
    return fuse_members(larger).has_value();
  }

  // Returns the clusters of the nodes that make this node's inputs, followed by those of earlier
  // nodes that read the same activations.
  std::vector<int> neighbours(const Node& node) const {
    std::vector<int> found;
    const auto note = [&](int other) {
      const int cluster = other < 0 ? -1 : of_node_[other];
      if (cluster >= 0 && std::ranges::find(found, cluster) == found.end())
        found.push_back(cluster);
    };
    for (int id : node.inputs) note(graph_.tensor(id).producer);
    for (int id : node.inputs)
      if (graph_.tensor(id).role == Role::activation)
        for (int reader : readers_[id]) note(reader);
    return found;
  }

  void add(int index) {
    const Node& node = graph_.nodes[index];
    if (can_be_fused(node)) {
      for (int cluster : neighbours(node)) {
        if (leads(node) || !can_join(node, clusters_[cluster])) continue;
        clusters_[cluster].push_back(index);
        of_node_[index] = cluster;
        break;
      }
      if (of_node_[index] < 0) {
        of_node_[index] = static_cast<int>(clusters_.size());
        clusters_.push_back({index});
      }
    }
    for (int id : node.inputs) readers_[id].push_back(index);
  }

  // Returns the fused node of a cluster. Returns nothing if fuse() or lead_with_product() fails, or
  // if even a block of one row would be too large.
  std::optional<Fused> fuse_members(const std::vector<int>& cluster) const {
    std::vector<const Node*> members;
    members.reserve(cluster.size());
    for (int index : cluster) members.push_back(&graph_.nodes[index]);
    std::optional<Fused> made = fuse(graph_, members, uses_);
    if (!made || (leads(*members.front()) && !lead_with_product(made->fusion))) return std::nullopt;
    made->fusion.block_rows = rows_per_block(made->fusion);
    if (made->fusion.block_rows == 0) return std::nullopt;
    return made;
  }

  // Returns the node of a cluster. A cluster has grown only while it could be fused, so fusing a
  // cluster of several nodes succeeds.
  Node node_of(const std::vector<int>& cluster) const {
    if (cluster.size() == 1) return graph_.nodes[cluster.front()];
    Fused made = fuse_members(cluster).value();
    made.node.attributes.fusion = std::make_shared<const Fusion>(std::move(made.fusion));
    return std::move(made.node);
  }

  const Graph& graph_;
  std::vector<int> uses_;                   // per tensor
  std::vector<std::vector<int>> clusters_;  // nodes in order
  std::vector<int> of_node_;                // per node: its cluster, or -1
  std::vector<char> overwrites_;            // per tensor: shares its memory with another
  std::vector<std::vector<int>> readers_;   // per tensor: the nodes visited so far that read it
};

}  // namespace

Graph fuse_rows(Graph graph, const Plan&) {
  graph.nodes = Clusters(graph).fused();
  return cleaned(std::move(graph));
}

}  // namespace meshwright::compiler
