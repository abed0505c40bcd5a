#include <algorithm>
#include <set>

#include "models/architectures/onnx/imported_graph.h"
#include "models/architectures/onnx/read_onnx.h"

namespace meshwright::architectures {

namespace {

using Kind = ImportedOperation::Operand::Kind;

bool is_element_by_element(Op op) {
  switch (op) {
    case Op::gelu:
    case Op::relu:
    case Op::tanh:
    case Op::silu:
    case Op::swiglu:
    case Op::multiply:
    case Op::scale:
    case Op::add_constant:
      return true;
    default:
      return false;
  }
}

class CutFinder {
 public:
  CutFinder(ImportedGraph& graph, std::int64_t vocabulary)
      : graph_(graph), vocabulary_(vocabulary), readers_(graph.operations.size()) {
    for (std::size_t i = 0; i < graph.operations.size(); ++i)
      for (const auto& input : graph.operations[i].inputs)
        if (input.kind == Kind::operation)
          readers_[static_cast<std::size_t>(input.index)].push_back(static_cast<int>(i));
  }

  void cut() {
    const int last = static_cast<int>(graph_.operations.size()) - 1;
    for (int i = 0; i <= last; ++i) {
      const ImportedOperation& operation = at(i);
      if (operation.op == Op::embedding || i == last) {
        for (std::size_t k = 1; k < operation.inputs.size(); ++k)
          parameter(operation, k).cut = {0, {vocabulary_}};
      } else if (operation.op == Op::attention) {
        cut_attention(i);
      } else if (operation.op == Op::linear) {
        cut_mlp(i);
      }
    }
  }

 private:
  ImportedOperation& at(int i) { return graph_.operations[static_cast<std::size_t>(i)]; }
  ImportedParameter& parameter(const ImportedOperation& operation, std::size_t operand) {
    return graph_.parameters[static_cast<std::size_t>(operation.inputs[operand].index)];
  }
  bool is_head(int i) const { return i + 1 == static_cast<int>(graph_.operations.size()); }

  std::int64_t outputs_of(int i) {
    const ImportedOperation& linear = at(i);
    return parameter(linear, 1).shape[linear.attributes.weight_in_out ? 1 : 0];
  }

  void cut_outputs(int i, const std::vector<std::int64_t>& segments) {
    const ImportedOperation& linear = at(i);
    parameter(linear, 1).cut = {linear.attributes.weight_in_out ? 1 : 0, segments};
    if (linear.inputs.size() > 2) parameter(linear, 2).cut = {0, segments};
  }

  void cut_inputs(int i) {
    const ImportedOperation& linear = at(i);
    const int axis = linear.attributes.weight_in_out ? 0 : 1;
    ImportedParameter& weight = parameter(linear, 1);
    weight.cut = {axis, {weight.shape[axis]}};
    weight.initial = Initial::residual_normal;
  }

  // Returns the linear layer that makes an operand of attention, before the norm of its heads and
  // its rotation, or -1 if there is none.
  int maker_of(const ImportedOperation& attention, std::size_t operand) {
    ImportedOperation::Operand input = attention.inputs[operand];
    while (input.kind == Kind::operation &&
           (at(input.index).op == Op::rope || at(input.index).op == Op::head_norm))
      input = at(input.index).inputs[0];
    const bool found = input.kind == Kind::operation && at(input.index).op == Op::linear;
    return found ? input.index : -1;
  }

  void cut_attention(int i) {
    const ImportedOperation& attention = at(i);
    const Attributes& a = attention.attributes;
    const std::int64_t q = std::int64_t{a.heads} * a.head_dim,
                       kv = std::int64_t{a.kv_heads} * a.head_dim;
    for (std::size_t k = 0; k < attention.inputs.size(); ++k) {
      const int maker = maker_of(attention, k);
      if (maker < 0) continue;
      if (a.packing == Packing::concatenated && attention.inputs.size() == 1)
        cut_outputs(maker, {q, kv, kv});
      else
        cut_outputs(maker, {outputs_of(maker)});
    }
    const std::vector<int>& readers = readers_[static_cast<std::size_t>(i)];
    if (readers.size() == 1 && at(readers[0]).op == Op::linear && !is_head(readers[0]))
      cut_inputs(readers[0]);
  }

  // Splits the MLP whose last linear layer is operation i: that layer by inputs, and by outputs the
  // linear layers whose results reach it through activations and products only. Splits nothing if i
  // is the model's head, if nothing lies in between, or if another operation makes or reads a
  // tensor in between.
  void cut_mlp(int i) {
    if (is_head(i)) return;
    std::set<int> between, makers;
    std::vector<ImportedOperation::Operand> open = {at(i).inputs[0]};
    while (!open.empty()) {
      const ImportedOperation::Operand input = open.back();
      open.pop_back();
      if (input.kind != Kind::operation) return;
      const ImportedOperation& operation = at(input.index);
      if (operation.op == Op::linear) {
        makers.insert(input.index);
      } else if (is_element_by_element(operation.op) && between.insert(input.index).second) {
        for (const auto& each : operation.inputs) open.push_back(each);
      } else if (!between.contains(input.index)) {
        return;
      }
    }
    if (between.empty()) return;
    std::set<int> inside = between;
    inside.insert(makers.begin(), makers.end());
    for (const int each : inside)
      for (const int reader : readers_[static_cast<std::size_t>(each)])
        if (reader != i && !between.contains(reader)) return;
    for (const int maker : makers) cut_outputs(maker, {outputs_of(maker)});
    cut_inputs(i);
  }

  ImportedGraph& graph_;
  std::int64_t vocabulary_;
  std::vector<std::vector<int>> readers_;
};

}  // namespace

void cut_parameters(ImportedGraph& graph, std::int64_t vocabulary) {
  CutFinder(graph, vocabulary).cut();
}

}  // namespace meshwright::architectures
