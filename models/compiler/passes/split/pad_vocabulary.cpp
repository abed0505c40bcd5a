#include "models/compiler/passes/split/pad_vocabulary.h"

#include "models/compiler/passes/graph/head_product.h"
#include "models/compiler/passes/rewriting.h"
#include "models/core/error.h"
#include "models/core/round_up.h"

namespace meshwright::compiler {

namespace {

void pad(Graph& graph, int tensor, std::int64_t from, std::int64_t to) {
  Tensor& weight = graph.tensors[tensor];
  Parameter& parameter = graph.parameters[weight.parameter];
  if (parameter.padded_shape[0] != from) return;  // a tied weight that is padded already
  parameter.padded_shape[0] = to;
  parameter.shape = parameter.padded_shape;
  if (parameter.cut.dim == 0) parameter.cut.segments = {to};
  weight.type.shape = parameter.shape;
}

}  // namespace

std::int64_t padded_vocabulary(std::int64_t vocabulary, int tensor) {
  return round_up(vocabulary, std::int64_t{128} * tensor);
}

Graph pad_vocabulary(Graph graph, const Plan& plan) {
  const std::int64_t from = graph.vocabulary;
  const std::int64_t to = padded_vocabulary(from, plan.parallelism.tensor);
  if (from == 0 || from == to) return graph;
  for (const Node& node : graph.nodes) {
    if (node.op == Op::embedding) pad(graph, node.inputs[1], from, to);
    if (!is_over_vocabulary(node)) continue;
    const int product = head_product(graph, node.inputs[0]);
    MESHWRIGHT_CHECK(product >= 0, "logits are made by a node");
    const Node& head = graph.nodes[product];
    MESHWRIGHT_CHECK(head.op == Op::linear && !head.attributes.weight_in_out,
                     "logits come from a product with W[vocabulary, hidden]");
    for (int i = 1; i < head.inputs.size(); ++i) pad(graph, head.inputs[i], from, to);
  }
  for (const Node& node : graph.nodes) infer_again(graph, node);
  return graph;
}

}  // namespace meshwright::compiler
