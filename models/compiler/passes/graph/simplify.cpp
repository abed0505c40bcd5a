#include "models/compiler/passes/graph/simplify.h"

#include "models/compiler/passes/graph/cleanup.h"

namespace meshwright::compiler {

namespace {

// A pair of operations: second(first(x)) is x if both have the same attributes. With a
// `temperature`, rope multiplies instead of rotating, so same_as() excludes it.
struct Inverse {
  Op first, second;
};
constexpr Inverse inverses[] = {
    {Op::columns_to_parts, Op::parts_to_columns},
    {Op::parts_to_columns, Op::columns_to_parts},
    {Op::rope, Op::rope_grad},
    {Op::rope_grad, Op::rope},
    {Op::sequence_gather, Op::sequence_slice},
    {Op::expert_exchange, Op::expert_exchange},
    {Op::context_exchange, Op::context_exchange},
    {Op::parts_to_sequence, Op::sequence_to_parts},
    {Op::sequence_to_parts, Op::parts_to_sequence},
};

bool does_nothing(const Graph& graph, const Node& node) {
  switch (node.op) {
    case Op::dropout:
    case Op::dropout_grad:
      return node.attributes.dropout == 0;
    case Op::rope:
    case Op::rope_grad:
      return node.attributes.rotary_dim == 0;
    case Op::tensor_copy:
    case Op::tensor_reduce:
      return graph.tensor_degree == 1;
    case Op::columns_to_parts:
    case Op::parts_to_columns:
      return node.attributes.tensor_degree == 1;
    default:
      return false;
  }
}

// Returns the existing tensor that is known to equal the node's output, or -1 if there is none.
int same_as(const Graph& graph, const Node& node) {
  if (does_nothing(graph, node)) return node.inputs[0];
  const int producer = node.inputs.empty() ? -1 : graph.tensor(node.inputs[0]).producer;
  if (producer < 0) return -1;
  const Node& before = graph.nodes[producer];
  if (before.phase != node.phase || graph.unit_of(before) != graph.unit_of(node)) return -1;
  if (before.op == Op::relu && node.op == Op::relu) return node.inputs[0];
  if (node.attributes.temperature != 0) return -1;  // both rope and its gradient multiply
  for (const Inverse& pair : inverses)
    if (before.op == pair.first && node.op == pair.second && before.attributes == node.attributes)
      return before.inputs[0];
  return -1;
}

}  // namespace

Graph simplify(Graph graph, const Plan& plan) {
  std::vector<int> becomes(graph.tensors.size());
  for (std::size_t id = 0; id < becomes.size(); ++id) becomes[id] = static_cast<int>(id);
  std::vector<char> left_out(graph.nodes.size(), 0);
  bool any = false;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = graph.nodes[i];
    for (int& id : node.inputs) id = becomes[id];
    if (node.outputs.size() != 1) continue;
    const int out = node.outputs[0], same = same_as(graph, node);
    const bool made_here = graph.tensor(out).role == Role::activation;
    if (same < 0 || !made_here || is_loss(graph, out) ||
        !(graph.tensor(same).type == graph.tensor(out).type))
      continue;
    becomes[out] = same;
    left_out[i] = 1;
    any = true;
  }
  if (!any) return graph;
  graph = without_reuse(std::move(graph));
  std::vector<Node> kept;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    if (!left_out[i]) kept.push_back(graph.nodes[i]);
  graph.nodes = std::move(kept);
  for (Tensor& tensor : graph.tensors)
    if (tensor.alias_of >= 0) tensor.alias_of = becomes[tensor.alias_of];
  return remove_dead_code(cleaned(std::move(graph)), plan);
}

}  // namespace meshwright::compiler
