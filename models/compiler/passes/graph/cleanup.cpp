#include "models/compiler/passes/graph/cleanup.h"
#include "models/program/graph/op_table.h"

#include <algorithm>

namespace meshwright::compiler {

namespace {

// Returns whether `tensor` is the loss that a router makes, its third output.
bool is_of_route(const Graph& graph, int tensor) {
  const int producer = graph.tensor(tensor).producer;
  return producer >= 0 && graph.nodes[producer].op == Op::route &&
         graph.nodes[producer].outputs[2] == tensor;
}

}  // namespace

int balancing_loss(const Graph& graph, const Node& node) {
  if (node.phase != Phase::forward) return -1;
  if (node.op == Op::tensor_reduce && is_of_route(graph, node.inputs[0])) return node.outputs[0];
  const bool is_summed = node.attributes.tensor_degree > 1;
  return node.op == Op::route && has_balancing_loss(node.attributes) && !is_summed ? node.outputs[2]
                                                                                   : -1;
}

Graph cleaned(Graph graph) {
  std::vector<char> named(graph.tensors.size(), 0);
  for (std::size_t id = 0; id < graph.tensors.size(); ++id)
    named[id] = graph.tensors[id].role != Role::activation;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (int id : graph.nodes[i].inputs) named[id] = 1;
    for (int id : graph.nodes[i].outputs) {
      named[id] = 1;
      if (is_made(graph.tensors[id])) graph.tensors[id].producer = static_cast<int>(i);
    }
  }
  std::vector<int> number(graph.tensors.size(), -1);
  std::vector<Tensor> kept;
  for (std::size_t id = 0; id < graph.tensors.size(); ++id) {
    if (!named[id]) continue;
    number[id] = static_cast<int>(kept.size());
    kept.push_back(graph.tensors[id]);
  }
  const auto renumber = [&](int& id) { id = id < 0 ? id : number[id]; };
  for (Tensor& tensor : kept) renumber(tensor.alias_of);
  for (Node& node : graph.nodes) {
    for (int& id : node.inputs) renumber(id);
    for (int& id : node.outputs) renumber(id);
  }
  for (Parameter& parameter : graph.parameters) {
    renumber(parameter.tensor);
    renumber(parameter.gradient);
  }
  for (RoundedTensor& rounded : graph.rounded) renumber(rounded.largest);
  for (int* id : {&graph.tokens, &graph.targets, &graph.positions, &graph.decoder_tokens,
                  &graph.documents, &graph.exchanged_documents, &graph.loss})
    renumber(*id);
  for (int& id : graph.captured) renumber(id);
  for (TokenAhead& each : graph.ahead)
    for (int* id : {&each.tokens, &each.targets, &each.loss}) renumber(*id);
  graph.tensors = std::move(kept);
  return graph;
}

Graph without(const std::vector<char>& dropped, Graph graph) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (dropped[i] != 0) continue;
    if (kept != i) graph.nodes[kept] = std::move(graph.nodes[i]);
    ++kept;
  }
  if (kept == graph.nodes.size()) return graph;
  graph.nodes.erase(graph.nodes.begin() + static_cast<std::ptrdiff_t>(kept), graph.nodes.end());
  return cleaned(std::move(graph));
}

bool is_loss(const Graph& graph, int tensor) {
  const auto is_ahead = [&](const TokenAhead& each) { return each.loss == tensor; };
  if (tensor == graph.loss || std::ranges::any_of(graph.ahead, is_ahead)) return true;
  const int producer = graph.tensor(tensor).producer;
  if (producer < 0) return false;
  const Node& maker = graph.nodes[producer];
  return tensor == balancing_loss(graph, maker);
}

std::vector<int> count_uses(const Graph& graph) {
  std::vector<int> uses(graph.tensors.size(), 0);
  for (const Node& node : graph.nodes) {
    for (int id : node.inputs) ++uses[id];
    if (const int loss = balancing_loss(graph, node); loss >= 0) ++uses[loss];
  }
  if (graph.loss >= 0) ++uses[graph.loss];
  for (const TokenAhead& each : graph.ahead) ++uses[each.loss];
  for (const Tensor& tensor : graph.tensors)
    if (tensor.alias_of >= 0) ++uses[tensor.alias_of];
  return uses;
}

Graph without_reuse(Graph graph) {
  for (Tensor& tensor : graph.tensors)
    if (tensor.alias_of >= 0 && !info(graph.nodes[tensor.producer].op).takes_loss_scale)
      tensor.alias_of = -1;
  return graph;
}

Graph remove_dead_code(Graph graph, const Plan&) {
  std::vector<int> uses = count_uses(graph);
  std::vector<char> is_dead(graph.nodes.size(), 0);
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const Node* node = &graph.nodes[i];
    const bool needed = std::ranges::any_of(node->outputs, [&](int id) {
      return uses[id] > 0 || graph.tensor(id).role == Role::parameter_gradient;
    });
    if (needed) continue;
    is_dead[i] = 1;
    for (int id : node->inputs) --uses[id];
    for (int id : node->outputs) {
      const int alias = graph.tensor(id).alias_of;
      if (alias >= 0) --uses[alias];
    }
  }
  return without(is_dead, std::move(graph));
}

}  // namespace meshwright::compiler
