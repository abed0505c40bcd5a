#include "models/compiler/passes/split/split_context.h"

#include "models/compiler/passes/rewriting.h"
#include "models/core/error.h"

namespace meshwright::compiler {

namespace {

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
    if (input >= 0) graph.tensors[input].type.shape[0] /= degree;
  for (Node& node : graph.nodes) {
    node.attributes.context_degree = degree;
    node.attributes.sequence_length = graph.sequence_length;
    infer_again(graph, node);
  }
  return graph;
}

}  // namespace meshwright::compiler
