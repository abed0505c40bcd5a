#include "models/compiler/passes/split/splitter.h"

#include <algorithm>

#include "models/compiler/passes/graph/head_product.h"
#include "models/core/error.h"

namespace meshwright::compiler {

bool is_norm(Op op) { return op == Op::layer_norm || op == Op::rms_norm; }

bool is_whole_loss(const Node& node) {
  return node.op == Op::span_loss || (node.op == Op::cross_entropy && !is_over_vocabulary(node));
}

bool shares_columns(const Graph& whole, const Node& product, int degree) {
  const int output = product.outputs[0];
  for (const Node& user : whole.nodes)
    if (is_whole_loss(user) && user.inputs[0] == output) return false;
  return whole.tensor(output).type.shape[1] % degree == 0;
}

Splitter::Splitter(const Graph& whole, std::vector<Cut> cuts, int degree, bool own_batch, Held held)
    : whole_(whole), cuts_(std::move(cuts)), degree_(degree), own_batch_(own_batch) {
  copy_everything_but_nodes(held);
}

Graph Splitter::run() {
  for (const Node& node : whole_.nodes) split(node);
  out_.loss = local(whole_.loss);
  for (std::size_t i = 0; i < out_.ahead.size(); ++i)
    out_.ahead[i].loss = local(whole_.ahead[i].loss);
  return std::move(out_);
}

void Splitter::copy_everything_but_nodes(Held held) {
  out_ = whole_;
  out_.tensors.clear();
  out_.nodes.clear();
  out_.parameters.clear();
  out_.tensor_degree = degree_;
  out_.held = held;
  out_.input_parts = own_batch_ ? degree_ : 1;
  id_.assign(whole_.tensors.size(), -1);
  layout_.assign(whole_.tensors.size(), Held::whole);
  whole_input_.assign(whole_.tensors.size(), -1);
  for (std::size_t i = 0; i < whole_.tensors.size(); ++i) {
    const Tensor& tensor = whole_.tensors[i];
    TensorType type = tensor.type;
    if (tensor.role == Role::input) {
      MESHWRIGHT_CHECK(type.shape[0] % out_.input_parts == 0, "verify(plan) checked the shares");
      if (static_cast<int>(i) != whole_.documents) type.shape[0] /= out_.input_parts;
      id_[i] = out_.add_tensor(type, Role::input);
    }
    if (tensor.role == Role::parameter) id_[i] = add_cut(tensor.parameter);
  }
  const auto moved = [&](int id) { return id < 0 ? -1 : local(id); };
  out_.tokens = moved(whole_.tokens);
  out_.targets = moved(whole_.targets);
  out_.positions = moved(whole_.positions);
  out_.decoder_tokens = moved(whole_.decoder_tokens);
  out_.documents = moved(whole_.documents);
  for (int& id : out_.captured) id = local(id);
  for (TokenAhead& each : out_.ahead)
    each.tokens = local(each.tokens), each.targets = local(each.targets);
}

int Splitter::add_cut(int parameter_index) {
  Parameter parameter = whole_.parameters[parameter_index];
  parameter.cut = cuts_[parameter_index];
  if (parameter.cut.dim >= 0) {
    for (std::int64_t segment : parameter.cut.segments)
      MESHWRIGHT_CHECK(segment % degree_ == 0, "verify(plan) lets only degrees pass that divide");
    parameter.shape = parameter.padded_shape;
    parameter.shape[parameter.cut.dim] /= degree_;
    parameter.is_cut = true;
  }
  return out_.add_parameter(std::move(parameter));
}

void Splitter::set(int tensor, int id, Held layout) {
  id_[tensor] = id;
  layout_[tensor] = layout;
}

int Splitter::apply(Op op, const Node& at, TensorIds inputs) {
  Attributes attributes = at.attributes;
  attributes.tensor_degree = degree_;
  return out_.output(out_.add(op, at.module, inputs, attributes));
}

int Splitter::communicate(Op op, const Node& at, int input, bool gradient_is_whole) {
  Attributes attributes = at.attributes;
  attributes.tensor_degree = degree_;
  attributes.gradient_is_whole = gradient_is_whole;
  return out_.output(out_.add(op, at.module, {input}, attributes));
}

void Splitter::add_like(const Node& node, TensorIds inputs, const Attributes& attributes,
                        Held layout) {
  const int index = out_.add(node.op, node.module, inputs, attributes);
  for (int i = 0; i < node.outputs.size(); ++i) set(node.outputs[i], out_.output(index, i), layout);
}

int Splitter::whole_input(const Node& at, int tensor) {
  if (!own_batch_ || tensor == whole_.documents) return local(tensor);
  int& cached = whole_input_[tensor];
  if (cached < 0) cached = communicate(Op::sequence_gather, at, local(tensor));
  return cached;
}

TensorIds Splitter::locals(const TensorIds& tensors) const {
  TensorIds ids;
  for (int id : tensors) ids.push_back(local(id));
  return ids;
}

void Splitter::split_cross_entropy(const Node& node) {
  MESHWRIGHT_CHECK(layout(node.inputs[0]) == Held::columns, "logits are cut by the vocabulary");
  Attributes attributes = node.attributes;
  attributes.vocabulary_parallel = true;
  attributes.tensor_degree = degree_;
  const int stats =
      out_.output(out_.add(Op::cross_entropy_stats, node.module,
                           {local(node.inputs[0]), whole_input(node, node.inputs[1])}, attributes));
  const int all = communicate(Op::stats_gather, node, stats);
  const int combine = out_.add(Op::cross_entropy_combine, node.module, {all}, attributes);
  for (int i = 0; i < 2; ++i) set(node.outputs[i], out_.output(combine, i), Held::whole);
}

void Splitter::split_heads(const Node& node) {
  MESHWRIGHT_CHECK(layout(node.inputs[0]) == Held::columns, "attention works on this rank's heads");
  Attributes attributes = node.attributes;
  attributes.heads /= degree_;
  attributes.kv_heads /= degree_;
  attributes.tensor_degree = degree_;
  if (node.op == Op::head_norm) note_partial(node);
  add_like(node, locals(node.inputs), attributes, Held::columns);
}

void Splitter::note_partial(const Node& node) {
  for (int i = 1; i < node.inputs.size(); ++i) {
    const int parameter = out_.tensor(local(node.inputs[i])).parameter;
    if (parameter >= 0) out_.parameters[parameter].partial_over_tensor = true;
  }
}

void Splitter::split_norm(const Node& node) {
  const int x = local(node.inputs[0]);
  const int stats = communicate(Op::stats_gather, node, apply(Op::norm_stats, node, {x}));
  TensorIds inputs = locals(node.inputs);
  inputs.push_back(stats);
  Attributes attributes = node.attributes;
  attributes.tensor_degree = degree_;
  attributes.rms_norm = node.op == Op::rms_norm;
  const int parts = out_.add(Op::norm_parts, node.module, inputs, attributes);
  for (int i = 0; i < 2; ++i) set(node.outputs[i], out_.output(parts, i), Held::columns);
}

int Splitter::look_up_columns(const Node& node) {
  return apply(Op::embedding, node, {whole_input(node, node.inputs[0]), local(node.inputs[1])});
}

void Splitter::sum_of_products(const Node& node, int x) {
  const Cut& usual = parameter_of(node.inputs[1]).cut;  // the model's own split
  const int out_axis = node.attributes.weight_in_out ? 1 : 0;
  const bool in_columns = shares_columns(whole_, node, degree_);
  int result = apply(Op::linear, node, {x, local(node.inputs[1])});
  if (in_columns) {
    Node at = node;
    if (usual.dim == out_axis && usual.segments.size() > 1)
      std::ranges::copy(usual.segments, at.attributes.segments.begin());
    result = apply(Op::columns_to_parts, at, {result});
    result = communicate(Op::sequence_scatter, node, result);
  } else {
    result = communicate(Op::tensor_reduce, node, result);
  }
  if (node.inputs.size() > 2) result = apply(Op::add_bias, node, {result, local(node.inputs[2])});
  set(node.outputs[0], result, in_columns ? Held::columns : Held::whole);
}

}  // namespace meshwright::compiler
