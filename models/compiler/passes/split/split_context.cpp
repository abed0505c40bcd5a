#include "models/compiler/passes/split/split_context.h"

#include "models/core/error.h"
#include "models/program/graph/op_table.h"

namespace meshwright::compiler {

namespace {

TensorType& type_of(Graph& graph, int tensor) { return graph.tensors[tensor].type; }

void check_head(const Graph& graph) {
  for (const Node& node : graph.nodes)
    if (node.op == Op::select_positions || node.op == Op::span_loss)
      throw InputError(broken("/parallelism/context",
                              "heads mlm, qa and classification predict from positions chosen "
                              "anywhere in the sequence, "
                              "of which a rank of a context group holds a part; use 1"));
}

}  // namespace

Graph split_context(Graph graph, const Plan& plan) {
  const int degree = plan.parallelism.context;
  if (degree == 1) return graph;
  check_head(graph);
  graph.context_degree = degree;
  graph.sequence_length /= degree;
  std::vector<int> inputs = {graph.tokens, graph.targets, graph.documents};
  for (const TokenAhead& each : graph.ahead)
    inputs.insert(inputs.end(), {each.tokens, each.targets});
  for (int input : inputs)
    if (input >= 0) type_of(graph, input).shape[0] /= degree;
  for (Node& node : graph.nodes) {
    node.attributes.context_degree = degree;
    node.attributes.sequence_length = graph.sequence_length;
    std::vector<TensorType> in, outputs;
    for (int id : node.inputs) in.push_back(type_of(graph, id));
    info(node.op).infer(node.attributes, in, outputs);
    for (int i = 0; i < node.outputs.size(); ++i) type_of(graph, node.outputs[i]) = outputs[i];
  }
  return graph;
}

}  // namespace meshwright::compiler
