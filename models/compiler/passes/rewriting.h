// Helpers of passes that change a graph or write it anew, node by node.
#pragma once

#include "models/program/graph/graph.h"
#include "models/program/graph/op_table.h"

namespace meshwright::compiler {

// Appends a node whose output tensors the graph already has, and makes it their producer. Gradients
// of parameters, to which the node adds, have no producer.
inline void append_node(Graph& graph, const Node& node) {
  for (const int id : node.outputs)
    if (is_made(graph.tensor(id)))
      graph.tensors[id].producer = static_cast<int>(graph.nodes.size());
  graph.nodes.push_back(node);
}

// Makes the existing tensor `tensor` output `i` of the last node.
inline void make_as(Graph& graph, int i, int tensor) {
  graph.nodes.back().outputs[i] = tensor;
  graph.tensors[tensor].producer = static_cast<int>(graph.nodes.size()) - 1;
}

// Infers the types of a node's outputs again, after those of its inputs or its attributes changed.
inline void infer_again(Graph& graph, const Node& node) {
  std::vector<TensorType> inputs, outputs;
  for (const int id : node.inputs) inputs.push_back(graph.tensor(id).type);
  info(node.op).infer(node.attributes, inputs, outputs);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    graph.tensors[node.outputs[static_cast<int>(i)]].type = outputs[i];
}

}  // namespace meshwright::compiler
