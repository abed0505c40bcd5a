#include "models/compiler/passes/graph/merge_products.h"

#include <algorithm>
#include <map>

#include "models/compiler/passes/back_end/fuse.h"
#include "models/compiler/passes/graph/cleanup.h"

namespace meshwright::compiler {

namespace {

// Nodes that are merged, in order, and the index of the node in whose place the merged node runs.
struct Group {
  std::vector<int> members;
  int place = 0;
};

bool same_product(const Node& a, const Node& b) {
  return a.op == b.op && a.phase == b.phase && a.attributes == b.attributes;
}

// Returns groups of two or three nodes that apply `op`, with equal attributes, to the same first
// operand in the same unit and phase. Each node adds at most two operands to the merged one.
std::vector<Group> groups_of_one_input(const Graph& graph, Op op, bool at_first) {
  constexpr std::size_t most = 3;
  std::map<std::pair<int, int>, std::vector<Group>> of_input;  // by input and unit
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) {
    const Node& node = graph.nodes[i];
    if (node.op != op || is_quantized(graph.tensor(node.inputs[0]).type.dtype)) continue;
    auto& alike = of_input[{node.inputs[0], graph.unit_of(node)}];
    const auto found = std::ranges::find_if(alike, [&](const Group& group) {
      return group.members.size() < most && same_product(graph.nodes[group.members.front()], node);
    });
    if (found == alike.end()) {
      alike.push_back({{i}, i});
    } else {
      found->members.push_back(i);
      if (!at_first) found->place = i;
    }
  }
  std::vector<Group> groups;
  for (auto& [input, alike] : of_input)
    for (Group& group : alike)
      if (group.members.size() > 1) groups.push_back(std::move(group));
  return groups;
}

// Returns groups of two to four matmuls that make gradients of one tensor through several weights,
// together with the additions that sum these gradients.
std::vector<Group> groups_of_one_sum(const Graph& graph) {
  constexpr std::size_t most = 4;
  const std::vector<int> uses = count_uses(graph);
  std::map<int, Group> making;  // by the tensor that the members make together
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) {
    const Node& node = graph.nodes[i];
    if (node.op == Op::linear_grad_input &&
        !is_quantized(graph.tensor(node.inputs[0]).type.dtype)) {
      making[node.outputs[0]] = {{i}, i};
      continue;
    }
    if (node.op != Op::add || node.inputs[0] == node.inputs[1]) continue;
    const auto a = making.find(node.inputs[0]), b = making.find(node.inputs[1]);
    if (a == making.end() || b == making.end()) continue;
    const Node& first = graph.nodes[a->second.members.front()];
    const Node& second = graph.nodes[b->second.members.front()];
    const auto products = (a->second.members.size() + b->second.members.size() + 2) / 2;
    if (uses[node.inputs[0]] != 1 || uses[node.inputs[1]] != 1 || products > most ||
        !same_product(first, second) || graph.unit_of(first) != graph.unit_of(node) ||
        graph.unit_of(second) != graph.unit_of(node))
      continue;
    Group sum = a->second;
    sum.members.insert(sum.members.end(), b->second.members.begin(), b->second.members.end());
    sum.members.push_back(i);
    sum.place = i;
    making.erase(node.inputs[0]);
    making.erase(node.inputs[1]);
    making[node.outputs[0]] = std::move(sum);
  }
  std::vector<Group> groups;
  for (auto& [tensor, group] : making)
    if (group.members.size() > 1) groups.push_back(std::move(group));
  return groups;
}

// Lets the first matmul write the result and the others add to it, so that the additions disappear.
void sum_in_products(Fusion& fusion) {
  const int result = fusion.inputs;
  std::vector<FusedStep> products;
  for (FusedStep& step : fusion.steps) {
    if (step.op == Op::add) continue;
    step.outputs[0] = result;
    step.attributes.adds = !products.empty();
    products.push_back(step);
  }
  fusion.steps = std::move(products);
  fusion.operands.resize(fusion.first_internal());
  fusion.cut.resize(fusion.first_internal());
}

Graph merged(Graph graph, const std::vector<Group>& groups) {
  const std::vector<int> uses = count_uses(graph);
  std::map<int, Node> made;  // by place
  std::vector<char> gone(graph.nodes.size(), 0);
  for (const Group& group : groups) {
    std::vector<const Node*> members;
    for (int index : group.members) members.push_back(&graph.nodes[index]);
    std::optional<Fused> fused = fuse(graph, members, uses);
    if (!fused) continue;
    Fusion& fusion = fused->fusion;
    if (fusion.steps.front().op == Op::linear_grad_input && fusion.outputs == 1)
      sum_in_products(fusion);
    // An internal operand is left if no node reads a result, so such a group is not merged.
    if (fusion.first_internal() < std::ssize(fusion.operands)) continue;
    fusion.loop = Fusion::Loop::products;
    fusion.block_rows = fusion.rows;
    fused->node.attributes.fusion = std::make_shared<const Fusion>(std::move(fusion));
    for (int index : group.members) gone[index] = 1;
    made[group.place] = std::move(fused->node);
  }
  std::vector<Node> nodes;
  nodes.reserve(graph.nodes.size());
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) {
    if (const auto node = made.find(i); node != made.end())
      nodes.push_back(std::move(node->second));
    if (!gone[i]) nodes.push_back(std::move(graph.nodes[i]));
  }
  graph.nodes = std::move(nodes);
  return cleaned(std::move(graph));
}

}  // namespace

Graph merge_products(Graph graph, const Plan&) {
  graph = without_reuse(std::move(graph));
  const auto merge = [&](const std::vector<Group>& groups) {
    graph = merged(std::move(graph), groups);
  };
  merge(groups_of_one_input(graph, Op::linear, true));
  merge(groups_of_one_sum(graph));
  merge(groups_of_one_input(graph, Op::linear_grad_weight, false));
  return graph;
}

}  // namespace meshwright::compiler
