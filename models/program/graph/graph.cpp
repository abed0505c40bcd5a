#include "models/program/graph/graph.h"

#include <algorithm>

#include "models/core/error.h"
#include "models/program/graph/documents.h"
#include "models/program/graph/fusion.h"
#include "models/program/graph/op_table.h"

namespace meshwright::program {

namespace {

template <class T>
const T& at(const std::vector<T>& items, int index) {
  return items[static_cast<std::size_t>(index)];
}

void list_types(const Graph& graph, const TensorIds& ids, std::vector<TensorType>& types) {
  types.clear();
  types.reserve(static_cast<std::size_t>(ids.size()));
  for (int id : ids) types.push_back(graph.tensor(id).type);
}

std::vector<TensorType> types_of(const Graph& graph, const TensorIds& ids) {
  std::vector<TensorType> types;
  list_types(graph, ids, types);
  return types;
}

}  // namespace

int Graph::add_tensor(TensorType type, Role role, int producer) {
  tensors.push_back({type, role, producer, -1, -1});
  return static_cast<int>(tensors.size()) - 1;
}

int Graph::add(Op op, int module, TensorIds inputs, const Attributes& attributes, Phase phase) {
  Node node{op, phase, module, inputs, {}, attributes};
  // The attributes may be copied from an operation with documents, so `documents` is reset for
  // operations that do not read them.
  if (!counts_in_documents(op)) node.attributes.documents = false;
  std::vector<TensorType> outputs;
  info(op).infer(node.attributes, types_of(*this, inputs), outputs);
  const int index = static_cast<int>(nodes.size());
  for (const TensorType& type : outputs)
    node.outputs.push_back(add_tensor(type, Role::activation, index));
  nodes.push_back(std::move(node));
  return index;
}

int Graph::add_gradient(Op op, int module, TensorIds inputs, TensorIds accumulated,
                        const Attributes& attributes) {
  const int index = add(op, module, inputs, attributes, Phase::backward);
  for (int id : accumulated) nodes.back().outputs.push_back(id);
  return index;
}

int Graph::add_parameter(Parameter parameter) {
  const int tensor = add_tensor({parameter.shape, parameter.dtype}, Role::parameter);
  parameter.tensor = tensor;
  tensors.back().parameter = static_cast<int>(parameters.size());
  parameters.push_back(std::move(parameter));
  return tensor;
}

int Graph::add_module(std::string path, int unit) {
  modules.push_back({std::move(path), unit});
  return static_cast<int>(modules.size()) - 1;
}

int Graph::add_unit(std::string path, bool is_block) {
  units.push_back({std::move(path), is_block});
  return static_cast<int>(units.size()) - 1;
}

void verify(const Graph& graph, std::string_view after) {
  std::vector<char> ready(graph.tensors.size(), 0);
  std::vector<TensorType> inputs, expected;  // of one node; declared here to reuse their memory
  for (std::size_t id = 0; id < graph.tensors.size(); ++id)
    ready[id] = graph.tensors[id].producer < 0;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    for (int id : node.inputs)
      MESHWRIGHT_CHECK(ready[static_cast<std::size_t>(id)],
                       "an input is made before it is used, after " + std::string(after));
    MESHWRIGHT_CHECK(info(node.op).takes.has(static_cast<std::size_t>(node.inputs.size())) &&
                         info(node.op).makes.has(static_cast<std::size_t>(node.outputs.size())),
                     std::string(info(node.op).name) + " has as many operands as its row says, " +
                         "after " + std::string(after));
    list_types(graph, node.inputs, inputs);
    expected.clear();
    info(node.op).infer(node.attributes, inputs, expected);
    MESHWRIGHT_CHECK(node.outputs.size() >= static_cast<int>(expected.size()),
                     "every inferred output exists, after " + std::string(after));
    for (int k = 0; k < node.outputs.size(); ++k) {
      const Tensor& output = graph.tensor(node.outputs[k]);
      if (k >= static_cast<int>(expected.size())) {
        MESHWRIGHT_CHECK(output.role == Role::parameter_gradient,
                         "what is added to is a parameter's gradient, after " + std::string(after));
        continue;
      }
      MESHWRIGHT_CHECK(
          output.producer == static_cast<int>(i) && output.type == at(expected, k),
          "an output has its producer and the inferred type, after " + std::string(after));
      ready[static_cast<std::size_t>(node.outputs[k])] = 1;
    }
  }
}

std::int64_t parameter_count(const Graph& graph) {
  std::int64_t count = 0;
  for (const Parameter& parameter : graph.parameters)
    if (parameter.counted) count += parameter.global_shape.elements();
  return count;
}

namespace {

// Returns the FLOPs of a forward and backward pass relative to those of the forward operation: 1
// for the forward matmul, and 1 in the backward pass for each factor that has a gradient.
// Activations count as having one. `second_input` is the weight's tensor, or -1 if it is unknown.
double passes_of(const Graph& graph, Op op, int second_input) {
  const bool is_product = op == Op::linear || op == Op::expert_linear;
  if (!is_product || second_input < 0) return 3;
  const Tensor* second = &graph.tensor(second_input);
  if (second->producer >= 0 && at(graph.nodes, second->producer).op == Op::widen_weights)
    second = &graph.tensor(at(graph.nodes, second->producer).inputs[0]);
  const Tensor& weight = *second;
  const bool is_frozen =
      weight.role == Role::parameter && !at(graph.parameters, weight.parameter).trainable;
  return is_frozen ? 2 : 3;
}

double model_flops(const Graph& graph, const Node& node, const Fusion& fusion) {
  const auto types = [&](const TensorIds& ids) {
    std::vector<TensorType> result;
    for (int id : ids) result.push_back(fusion.operands[static_cast<std::size_t>(id)]);
    return result;
  };
  double flops = 0;
  for (const FusedStep& step : fusion.steps)
    flops += passes_of(graph, step.op,
                       step.inputs.size() > 1 && step.inputs[1] < node.inputs.size()
                           ? node.inputs[step.inputs[1]]
                           : -1) *
             model_flops(OpCall{step.op, step.attributes, types(step.inputs), types(step.outputs)});
  return flops;
}

// Returns whether the fusion is a fused loss. It makes the logits in the backward pass, but their
// FLOPs are model FLOPs of the forward pass.
bool makes_logits(const Fusion& fusion) {
  return std::ranges::any_of(fusion.steps,
                             [](const FusedStep& step) { return step.op == Op::cross_entropy; });
}

}  // namespace

double model_flops(const Graph& graph) {
  double flops = 0;
  for (const Node& node : graph.nodes) {
    const Fusion* fusion = node.attributes.fusion.get();
    const bool forward = node.phase == Phase::forward;
    if (node.attributes.segment != nullptr) {  // the FLOPs of its backward pass are known
      if (node.phase != Phase::recompute)
        flops += model_flops(OpCall{node.op, node.attributes, {}, {}});
    } else if (fusion != nullptr) {
      if (forward || makes_logits(*fusion)) flops += model_flops(graph, node, *fusion);
    } else if (forward) {
      const auto inputs = types_of(graph, node.inputs);
      const auto outputs = types_of(graph, node.outputs);
      flops += passes_of(graph, node.op, node.inputs.size() > 1 ? node.inputs[1] : -1) *
               model_flops(OpCall{node.op, node.attributes, inputs, outputs});
    }
  }
  return flops;
}

std::string to_text(const Graph& graph) {
  const auto tensor_text = [&](int id) {
    const Tensor& tensor = graph.tensor(id);
    std::string text = is_weight(tensor) ? at(graph.parameters, tensor.parameter).name
                       : tensor.role == Role::parameter_gradient
                           ? "d(" + at(graph.parameters, tensor.parameter).name + ")"
                           : "%" + std::to_string(id);
    text += "[";
    for (int i = 0; i < tensor.type.shape.rank; ++i)
      text += (i ? "," : "") + std::to_string(tensor.type.shape[i]);
    return text + "]";
  };
  std::string text;
  for (const Node& node : graph.nodes) {
    constexpr const char* phases[] = {"forward  ", "recompute", "backward "};
    text += std::string(phases[static_cast<std::size_t>(node.phase)]) + " " +
            at(graph.modules, node.module).path + ": ";
    for (int i = 0; i < node.outputs.size(); ++i)
      text += (i ? ", " : "") + tensor_text(node.outputs[i]);
    text += node.outputs.empty() ? "" : " = ";
    text += (node.op == Op::fused ? "{" + name_of(*node.attributes.fusion) + "}"
                                  : std::string(info(node.op).name)) +
            "(";
    for (int i = 0; i < node.inputs.size(); ++i)
      text += (i ? ", " : "") + tensor_text(node.inputs[i]);
    text += ")\n";
  }
  return text;
}

}  // namespace meshwright::program
