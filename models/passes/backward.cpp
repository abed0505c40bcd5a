#include "models/passes/backward.h"

#include "models/core/error.h"

namespace meshwright {

namespace {

class Differentiator {
 public:
  Differentiator(Graph& graph, double scale, const Training& training)
      : graph_(graph),
        scale_(scale),
        fuse_accumulation_(training.fuse_gradient_accumulation),
        sum_type_(training.gradient_reduce) {
    gradient_.assign(graph.tensors.size(), -1);
    for (Parameter& parameter : graph_.parameters) add_parameter_gradient(parameter);
    needs_.assign(graph_.tensors.size(), 0);
    for (const Node& node : graph_.nodes)
      for (int id : node.inputs)
        if (graph_.tensor(id).role == Role::parameter || needs(id))
          for (int output : node.outputs) needs_[static_cast<std::size_t>(output)] = 1;
  }

  void run() {
    for (int i = static_cast<int>(graph_.nodes.size()) - 1; i >= 0; --i) {
      const Node node = graph_.nodes[static_cast<std::size_t>(i)];  // a copy: nodes are appended
      differentiate(node);
    }
  }

 private:
  void add_parameter_gradient(Parameter& parameter) {
    const int id = graph_.add_tensor({parameter.shape, sum_type_}, Role::parameter_gradient);
    graph_.tensors.back().parameter = graph_.tensor(parameter.tensor).parameter;
    parameter.gradient = id;
    gradient_.push_back(-1);
  }

  bool needs(int tensor) const { return needs_[static_cast<std::size_t>(tensor)] != 0; }

  int& gradient(int tensor) {
    if (gradient_.size() < graph_.tensors.size()) gradient_.resize(graph_.tensors.size(), -1);
    return gradient_[static_cast<std::size_t>(tensor)];
  }

  int of_parameter(int tensor) const {
    const int parameter = graph_.tensor(tensor).parameter;
    return graph_.parameters[static_cast<std::size_t>(parameter)].gradient;
  }

  // A tensor with several users gets the sum of their gradients, added where the next user is.
  void pass_on(const Node& at, int tensor, int part) {
    if (graph_.tensor(tensor).role != Role::activation || !needs(tensor)) return;
    const int before = gradient(tensor);
    if (before < 0) {
      gradient(tensor) = part;
      return;
    }
    Attributes attributes = at.attributes;
    const int sum = graph_.add(Op::add, at.module, {before, part}, attributes, Phase::backward);
    gradient(tensor) = graph_.output(sum);
  }

  int make(Op op, const Node& at, TensorIds inputs, TensorIds accumulated = {}) {
    return graph_.add_gradient(op, at.module, inputs, accumulated, at.attributes);
  }
  void make_and_pass(Op op, const Node& at, TensorIds inputs, TensorIds accumulated = {}) {
    const int node = make(op, at, inputs, accumulated);
    pass_on(at, at.inputs[0], graph_.output(node));
  }

  void differentiate(const Node& node) {
    if (differentiate_loss(node)) return;
    const int dy = gradient(node.outputs[0]);
    if (dy < 0) return;  // nothing downstream depends on it
    const TensorIds& in = node.inputs;
    switch (node.op) {
      case Op::embedding:
        make(Op::embedding_grad, node, {in[0], dy}, {of_parameter(in[1])});
        break;
      case Op::add_position:
        through(Op::add_position_grad, node, dy);
        break;
      case Op::add_row:
        through(Op::add_row_grad, node, dy);
        break;
      case Op::add_bias:
        through(Op::bias_grad, node, dy);
        break;
      case Op::layer_norm:
      case Op::rms_norm:
        differentiate_norm(node, dy);
        break;
      case Op::linear:
        differentiate_product(node, dy, Op::linear_grad_input, Op::linear_grad_weight);
        break;
      case Op::rope:
        make_and_pass(Op::rope_grad, node, {dy});
        break;
      case Op::attention:
        differentiate_attention(node, dy);
        break;
      case Op::gelu:
        make_and_pass(Op::gelu_grad, node, {in[0], dy});
        break;
      case Op::relu:
        make_and_pass(Op::relu_grad, node, {in[0], dy});
        break;
      case Op::tanh:
        make_and_pass(Op::tanh_grad, node, {node.outputs[0], dy});
        break;
      case Op::swiglu: {
        const int grad = make(Op::swiglu_grad, node, {in[0], in[1], dy});
        for (int i = 0; i < 2; ++i) pass_on(node, in[i], graph_.output(grad, i));
        break;
      }
      case Op::add:
        for (int id : in) pass_on(node, id, dy);
        break;
      case Op::dropout:
        make_and_pass(Op::dropout_grad, node, {dy});
        break;
      case Op::select_positions:
        make_and_pass(Op::select_positions_grad, node, {dy, in[1]});
        break;
      case Op::route: {
        Node at = node;
        at.attributes.scale = scale_;
        make_and_pass(Op::route_grad, at, {in[0], node.outputs[1], dy});
        break;
      }
      case Op::dispatch:
        make_and_pass(Op::dispatch_grad, node, {in[1], dy});
        break;
      case Op::expert_exchange:
        make_and_pass(Op::expert_exchange, node, {dy});
        break;
      case Op::expert_linear:
        differentiate_product(node, dy, Op::expert_linear_grad_input,
                              Op::expert_linear_grad_weight);
        break;
      case Op::combine: {
        const int grad = make(Op::combine_grad, node, {in[0], in[1], in[2], dy});
        for (int i = 0; i < 2; ++i) pass_on(node, in[i], graph_.output(grad, i));
        break;
      }
      // The framework's operations.
      case Op::scale:
      case Op::times_cosine:
      case Op::times_sine:
        make_and_pass(node.op, node, {dy});  // linear and symmetric
        break;
      case Op::add_constant:
      case Op::add_alibi:
      case Op::mask_scores:  // what it hides has probability 0, and so the gradient 0
        pass_on(node, in[0], dy);
        break;
      case Op::cube:
        make_and_pass(Op::cube_grad, node, {in[0], dy});
        break;
      case Op::silu:
        make_and_pass(Op::silu_grad, node, {in[0], dy});
        break;
      case Op::multiply:
        make_and_pass(Op::multiply, node, {dy, in[1]});
        pass_on(node, in[1], graph_.output(make(Op::multiply, node, {dy, in[0]})));
        break;
      case Op::mean_of_squares:
        make_and_pass(Op::mean_of_squares_grad, node, {in[0], dy});
        break;
      case Op::inverse_root:
        make_and_pass(Op::inverse_root_grad, node, {node.outputs[0], dy});
        break;
      case Op::scale_rows:
        make_and_pass(Op::scale_rows, node, {dy, in[1]});
        pass_on(node, in[1], graph_.output(make(Op::row_dots, node, {in[0], dy})));
        break;
      case Op::scale_columns:
        make_and_pass(Op::scale_columns, node, {dy, in[1]});
        make(Op::scale_columns_grad, node, {in[0], dy}, {of_parameter(in[1])});
        break;
      case Op::rotate_half:
        make_and_pass(Op::rotate_half_grad, node, {dy});
        break;
      case Op::split_heads: {
        TensorIds of_heads;
        for (int id : node.outputs) of_heads.push_back(gradient(id));
        make_and_pass(Op::join_heads, node, of_heads);
        break;
      }
      case Op::join_heads:
        make_and_pass(Op::split_heads, node, {dy});
        break;
      case Op::scores:
        make_and_pass(Op::weigh_values, node, {dy, in[1]});
        pass_on(node, in[1], graph_.output(make(Op::weigh_transposed, node, {dy, in[0]})));
        break;
      case Op::add_relative_bias:
        through(Op::relative_bias_grad, node, dy);
        break;
      case Op::softmax:
        make_and_pass(Op::softmax_grad, node, {node.outputs[0], dy});
        break;
      case Op::drop_probabilities:
        make_and_pass(Op::drop_probabilities_grad, node, {dy});
        break;
      case Op::weigh_values:
        pass_on(node, in[1], graph_.output(make(Op::weigh_transposed, node, {in[0], dy})));
        make_and_pass(Op::scores, node, {dy, in[1]});
        break;
      case Op::log_softmax:
        make_and_pass(Op::log_softmax_grad, node, {node.outputs[0], dy});
        break;
      case Op::prepend_row:
        make_and_pass(Op::prepend_row_grad, node, {dy}, {of_parameter(in[1])});
        break;
      case Op::tensor_copy:
        make_and_pass(Op::tensor_reduce, node, {dy});
        break;
      case Op::tensor_reduce:
        pass_on(node, in[0], dy);
        break;
      case Op::sequence_gather:
        make_and_pass(node.attributes.gradient_is_whole ? Op::sequence_slice : Op::sequence_scatter,
                      node, {dy});
        break;
      case Op::sequence_scatter:
      case Op::sequence_slice:
        make_and_pass(Op::sequence_gather, node, {dy});
        break;
      case Op::norm_parts:
        differentiate_norm_parts(node, dy);
        break;
      case Op::columns_to_parts:
        make_and_pass(Op::parts_to_columns, node, {dy});
        break;
      case Op::parts_to_columns:
        make_and_pass(Op::columns_to_parts, node, {dy});
        break;
      default:
        MESHWRIGHT_CHECK(false, "every forward operation has a gradient rule");
    }
  }

  // The loss begins the backward pass: its gradient needs no gradient. dlogits takes the place of
  // the logits.
  bool differentiate_loss(const Node& node) {
    if (node.op == Op::cross_entropy_combine) {
      combined_ = node.outputs[1];
      return true;
    }
    if (node.op == Op::stats_gather) return true;
    if (node.op == Op::nll_loss) {
      Node at = node;
      at.attributes.scale = scale_;
      make_and_pass(Op::nll_loss_grad, at, {node.inputs[0], node.inputs[1]});
      return true;
    }
    if (node.op != Op::cross_entropy && node.op != Op::cross_entropy_stats &&
        node.op != Op::span_loss)
      return false;
    const int saved = node.op == Op::cross_entropy_stats ? combined_ : node.outputs[1];
    Node at = node;
    at.attributes.scale = scale_;
    const Op op = node.op == Op::span_loss ? Op::span_loss_grad : Op::cross_entropy_grad;
    const int grad = graph_.output(make(op, at, {node.inputs[0], saved, node.inputs[1]}));
    graph_.tensors[static_cast<std::size_t>(grad)].alias_of = node.inputs[0];
    pass_on(node, node.inputs[0], grad);
    return true;
  }

  // y = x + parameter: dy goes to both.
  void through(Op op, const Node& node, int dy) {
    make(op, node, {dy}, {of_parameter(node.inputs[1])});
    pass_on(node, node.inputs[0], dy);
  }

  void differentiate_norm(const Node& node, int dy) {
    TensorIds accumulated;
    for (int i = 1; i < node.inputs.size(); ++i)
      accumulated.push_back(of_parameter(node.inputs[i]));
    make_and_pass(node.op == Op::layer_norm ? Op::layer_norm_grad : Op::rms_norm_grad, node,
                  {node.inputs[0], node.inputs[1], node.outputs[1], dy}, accumulated);
  }

  // The gradient of a row needs two sums over all its columns. What flows through the statistics is
  // in this rule too.
  void differentiate_norm_parts(const Node& node, int dy) {
    const int x = node.inputs[0], weight = node.inputs[1], saved = node.outputs[1];
    TensorIds accumulated;
    for (int i = 1; i + 1 < node.inputs.size(); ++i)
      accumulated.push_back(of_parameter(node.inputs[i]));
    const int own = make(Op::norm_parts_sums, node, {x, weight, saved, dy}, accumulated);
    const int sums = make(Op::tensor_reduce, node, {graph_.output(own)});
    make_and_pass(Op::norm_parts_grad, node, {x, weight, saved, dy, graph_.output(sums)});
  }

  // The input's gradient first: what waits for it (a collective, an earlier stage) starts while the
  // weight's is computed.
  void differentiate_product(const Node& node, int dy, Op of_input, Op of_weight) {
    if (needs(node.inputs[0])) make_and_pass(of_input, node, {dy, node.inputs[1]});
    Node at = node;
    at.attributes.accumulate_separately = !fuse_accumulation_;
    make(of_weight, at, {node.inputs[0], dy}, {of_parameter(node.inputs[1])});
    if (node.inputs.size() > 2) make(Op::bias_grad, node, {dy}, {of_parameter(node.inputs[2])});
  }

  void differentiate_attention(const Node& node, int dy) {
    const bool relative = node.attributes.relative_buckets > 0;
    const int count = node.inputs.size() - (relative ? 1 : 0);  // of queries, keys and values
    TensorIds inputs, table;
    for (int i = 0; i < count; ++i) inputs.push_back(node.inputs[i]);
    for (int id : {node.outputs[0], node.outputs[1], dy}) inputs.push_back(id);
    if (relative) {
      inputs.push_back(node.inputs[count]);
      table.push_back(of_parameter(node.inputs[count]));
    }
    const int grad = make(Op::attention_grad, node, inputs, table);
    for (int i = 0; i < count; ++i) pass_on(node, node.inputs[i], graph_.output(grad, i));
  }

  Graph& graph_;
  double scale_;
  bool fuse_accumulation_;
  Dtype sum_type_;
  int combined_ = -1;
  std::vector<int> gradient_;  // per tensor
  std::vector<char> needs_;    // per tensor: does a parameter influence it?
};

}  // namespace

std::int64_t targets_per_step(const Graph& graph, const Plan& plan) {
  const std::int64_t of_micro_batch = graph.tensor(graph.targets).type.shape.elements();
  return of_micro_batch * graph.input_parts / graph.micro_batch * graph.context_degree *
         plan.training.global_batch;
}

Graph backward(Graph graph, const Plan& plan) {
  const double scale = 1.0 / static_cast<double>(targets_per_step(graph, plan));
  Differentiator(graph, scale, plan.training).run();
  return graph;
}

}  // namespace meshwright
