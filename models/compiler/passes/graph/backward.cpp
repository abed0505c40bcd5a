#include "models/compiler/passes/graph/backward.h"

#include "models/program/graph/gradients.h"

namespace meshwright::compiler {

std::int64_t targets_per_step(const Graph& graph, const Plan& plan) {
  const std::int64_t of_micro_batch = graph.tensor(graph.targets).type.shape.elements();
  return of_micro_batch * graph.input_parts / graph.micro_batch * graph.context_degree *
         plan.training.global_batch;
}

Graph backward(Graph graph, const Plan& plan) {
  const double scale = 1.0 / static_cast<double>(targets_per_step(graph, plan));
  Gradients gradients(graph, scale, plan.training.gradient_reduce,
                      plan.training.fuse_gradient_accumulation);
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const Node node = graph.nodes[i];  // a copy: nodes are appended
    gradients.differentiate(node);
  }
  return graph;
}

}  // namespace meshwright::compiler
