// The gradients of a graph's tensors while a backward pass is made. The rules of the table of
// operations (models/program/graph/ops/) append nodes through it;
// models/compiler/passes/graph/backward.cpp calls them, last node first.
#pragma once

#include <cstdint>
#include <vector>

#include "models/program/graph/graph.h"

namespace meshwright {

class Gradients {
 public:
  // `scale`: 1 / targets of the global batch, what the loss's gradient is multiplied by. Parameter
  // gradients are summed in `sum_type`; unless the sums are fused into the products of weight
  // gradients, a kernel of its own adds them.
  Gradients(Graph& graph, double scale, Dtype sum_type, bool fuses_accumulation);

  // Appends what the gradients of the node's inputs need, where anything after it depends on it.
  void differentiate(const Node& node);

  // For rules. dx is the gradient of x, made of dy, that of an output.
  double scale() const { return scale_; }
  // Returns the scale of the gradient of a loss that counts `factor` times.
  double scale_of(const Node& loss) const { return scale_ * loss.attributes.factor; }
  bool fuses_accumulation() const { return fuses_accumulation_; }
  // Returns whether a trained parameter influences the tensor.
  bool needs(int tensor) const { return needs_[static_cast<std::size_t>(tensor)] != 0; }
  // Returns the gradient of a tensor so far, or -1 if it has none yet.
  int& of(int tensor);
  int of_parameter(int tensor) const;  // -1: it is not trained
  bool trains(int tensor) const { return of_parameter(tensor) >= 0; }
  // Appends a node with the attributes of `at`; `accumulated` without those that are not trained.
  int make(Op op, const Node& at, TensorIds inputs, TensorIds accumulated = {});
  // Passes on `part`, the gradient of `tensor` from one of its users. Gradients of several users
  // are added where the next user is.
  void pass_on(const Node& at, int tensor, int part);
  // Does both: the made node's first output is a gradient of the first input of `at`.
  void make_and_pass(Op op, const Node& at, TensorIds inputs, TensorIds accumulated = {});
  int output(int node, int i = 0) const { return graph_.output(node, i); }
  // Lets the gradient `made` take the place of the tensor in memory.
  void replace(int tensor, int made);

  // The tensor that cross_entropy_combine saved, which the statistics' gradient reads. -1 if there
  // is none.
  int combined = -1;

 private:
  void add_parameter_gradient(Parameter& parameter, Dtype sum_type);

  Graph& graph_;
  double scale_;
  bool fuses_accumulation_;
  std::vector<int> gradient_;  // per tensor
  std::vector<char> needs_;    // per tensor
};

}  // namespace meshwright
