#include "models/program/graph/gradients.h"

#include "models/core/error.h"
#include "models/program/graph/op_table.h"

namespace meshwright::program {

Gradients::Gradients(Graph& graph, double scale, Dtype sum_type, bool fuses_accumulation)
    : graph_(graph), scale_(scale), fuses_accumulation_(fuses_accumulation) {
  gradient_.assign(graph.tensors.size(), -1);
  for (Parameter& parameter : graph_.parameters)
    if (parameter.trainable) add_parameter_gradient(parameter, sum_type);
  needs_.assign(graph_.tensors.size(), 0);
  for (const Node& node : graph_.nodes)
    for (int id : node.inputs)
      if ((graph_.tensor(id).role == Role::parameter && trains(id)) || needs(id))
        for (int output : node.outputs) needs_[output] = 1;
}

void Gradients::add_parameter_gradient(Parameter& parameter, Dtype sum_type) {
  const int id = graph_.add_tensor({parameter.shape, sum_type}, Role::parameter_gradient);
  graph_.tensors.back().parameter = graph_.tensor(parameter.tensor).parameter;
  parameter.gradient = id;
  gradient_.push_back(-1);
}

void Gradients::differentiate(const Node& node) {
  const OpInfo& row = info(node.op);
  const int dy = of(node.outputs[0]);
  const bool begins =
      row.begins_backward || (node.op == Op::route && only_balances(node.attributes));
  if (dy < 0 && !begins) return;  // nothing downstream depends on it
  if (begins && !needs(node.outputs[0])) return;
  MESHWRIGHT_CHECK(row.differentiate != nullptr, "every forward operation has a gradient rule");
  row.differentiate(*this, node, dy);
}

int& Gradients::of(int tensor) {
  if (gradient_.size() < graph_.tensors.size()) gradient_.resize(graph_.tensors.size(), -1);
  return gradient_[tensor];
}

int Gradients::of_parameter(int tensor) const {
  const int parameter = graph_.tensor(tensor).parameter;
  return graph_.parameters[parameter].gradient;
}

int Gradients::make(Op op, const Node& at, TensorIds inputs, TensorIds accumulated) {
  TensorIds trained;
  for (int id : accumulated)
    if (id >= 0) trained.push_back(id);
  return graph_.add_gradient(op, at.module, inputs, trained, at.attributes);
}

void Gradients::pass_on(const Node& at, int tensor, int part) {
  if (graph_.tensor(tensor).role != Role::activation || !needs(tensor)) return;
  const int before = of(tensor);
  if (before < 0) {
    of(tensor) = part;
    return;
  }
  const int sum = graph_.add(Op::add, at.module, {before, part}, at.attributes, Phase::backward);
  of(tensor) = graph_.output(sum);
}

void Gradients::make_and_pass(Op op, const Node& at, TensorIds inputs, TensorIds accumulated) {
  const int node = make(op, at, inputs, accumulated);
  pass_on(at, at.inputs[0], graph_.output(node));
}

void Gradients::replace(int tensor, int made) { graph_.tensors[made].alias_of = tensor; }

}  // namespace meshwright::program
