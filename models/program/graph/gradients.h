// Keeps the gradients of a graph's tensors while its backward pass is made.
// models/compiler/passes/graph/backward.cpp goes through the nodes, last first, and calls their
// rules in the table of operations (models/program/graph/ops/), which append nodes through this
// class.
#pragma once

#include <vector>

#include "models/program/graph/graph.h"

namespace meshwright::program {

class Gradients {
 public:
  // `scale` is 1 / targets of the global batch, a factor of the loss's gradient. Parameter
  // gradients are summed in `sum_type`. If `fuses_accumulation`, the kernels of weight gradients
  // add to these sums themselves, otherwise separate kernels do.
  Gradients(Graph& graph, double scale, Dtype sum_type, bool fuses_accumulation);

  // Appends the nodes that compute the gradients of the inputs of `node`. Appends none if no loss
  // depends on the first output of the node, or if no trained parameter influences it.
  void differentiate(const Node& node);

  // The functions below are for rules, in which dx is the gradient of an input x, and dy that of an
  // output.
  double scale() const { return scale_; }
  // Returns the factor of the gradient of a loss node: scale() times the attribute `factor` of the
  // node.
  double scale_of(const Node& loss) const { return scale_ * loss.attributes.factor; }
  bool fuses_accumulation() const { return fuses_accumulation_; }
  // Returns whether a trained parameter influences the tensor, so that its gradient is needed.
  bool needs(int tensor) const { return needs_[tensor] != 0; }
  // Returns the id of the gradient of a tensor so far, or -1 if it has none yet.
  int& of(int tensor);
  int of_parameter(int tensor) const;  // returns the id of its gradient, or -1 if it is not trained
  bool trains(int tensor) const { return of_parameter(tensor) >= 0; }
  // Appends a node with the module and attributes of `at`, and returns its index. Ids of -1 in
  // `accumulated`, of parameters that are not trained, are left out.
  int make(Op op, const Node& at, TensorIds inputs, TensorIds accumulated = {});
  // Adds `part`, the gradient from one user of the tensor, to the gradient of `tensor`. From the
  // second user on, an `add` node makes the sum. Does nothing if `tensor` is no activation, or if
  // no trained parameter influences it.
  void pass_on(const Node& at, int tensor, int part);
  // Calls make() and pass_on(): the first output of the new node is the gradient of the first input
  // of `at`.
  void make_and_pass(Op op, const Node& at, TensorIds inputs, TensorIds accumulated = {});
  int output(int node, int i = 0) const { return graph_.output(node, i); }
  // Makes the gradient `made` use the memory of `tensor`.
  void replace(int tensor, int made);

  // The tensor that cross_entropy_combine saved, which the gradient of cross_entropy_stats reads.
  // -1 until cross_entropy_combine has been differentiated.
  int combined = -1;

 private:
  void add_parameter_gradient(Parameter& parameter, Dtype sum_type);

  Graph& graph_;
  double scale_;
  bool fuses_accumulation_;
  std::vector<int> gradient_;  // per tensor
  std::vector<char> needs_;    // per tensor
};

}  // namespace meshwright::program
