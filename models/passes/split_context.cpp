#include "models/passes/split_context.h"

#include "models/core/error.h"

namespace meshwright {

namespace {

TensorType& type_of(Graph& graph, int tensor) {
  return graph.tensors[static_cast<std::size_t>(tensor)].type;
}

void check_supported(const Graph& graph) {
  for (const Node& node : graph.nodes)
    if (node.op == Op::select_positions || node.op == Op::span_loss)
      throw NotSupportedYet(
          "/parallelism/context: context parallelism of models that predict chosen positions "
          "(heads mlm and qa) is not supported yet");
}

}  // namespace

Graph split_context(Graph graph, const Plan& plan) {
  const int degree = plan.parallelism.context;
  if (degree == 1) return graph;
  check_supported(graph);
  graph.context_degree = degree;
  graph.sequence_length /= degree;
  for (int input : {graph.tokens, graph.targets}) type_of(graph, input).shape[0] /= degree;
  for (Node& node : graph.nodes) {
    node.attributes.context_degree = degree;
    node.attributes.sequence_length = graph.sequence_length;
    std::vector<TensorType> inputs, outputs;
    for (int id : node.inputs) inputs.push_back(type_of(graph, id));
    info(node.op).infer(node.attributes, inputs, outputs);
    for (int i = 0; i < node.outputs.size(); ++i)
      type_of(graph, node.outputs[i]) = outputs[static_cast<std::size_t>(i)];
  }
  return graph;
}

}  // namespace meshwright
