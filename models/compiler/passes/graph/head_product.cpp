#include "models/compiler/passes/graph/head_product.h"

#include "models/program/graph/op_table.h"

namespace meshwright::compiler {

int head_product(const Graph& graph, int logits) {
  int node = graph.tensor(logits).producer;
  while (node >= 0 && graph.nodes[node].inputs.size() == 1 &&
         info(graph.nodes[node].op).split == SplitRule::elements)
    node = graph.tensor(graph.nodes[node].inputs[0]).producer;
  return node;
}

bool is_over_vocabulary(const Node& node) {
  return node.op == Op::cross_entropy && node.attributes.vocabulary > 0;
}

}  // namespace meshwright::compiler
