#include "models/compiler/passes/graph/eager_operations.h"

#include "models/compiler/passes/rewriting.h"

namespace meshwright::compiler {

namespace {

class EagerWriter {
 public:
  explicit EagerWriter(const Graph& graph) : old_(graph), out_(graph) { out_.nodes.clear(); }

  // Returns the graph with each node replaced by the nodes that `expand` writes. If `expand`
  // returns false, the node stays as it is.
  Graph run(bool (EagerWriter::*expand)(const Node&)) {
    for (const Node& node : old_.nodes)
      if (!(this->*expand)(node)) append_node(out_, node);
    return std::move(out_);
  }

  bool module(const Node& node) {
    switch (node.op) {
      case Op::gelu:
        return node.attributes.gelu_tanh && gelu(node);
      case Op::swiglu:
        return swiglu(node);
      case Op::rms_norm:
        return rms_norm(node);
      case Op::rope:
        return rope(node);
      case Op::attention:
        return node.attributes.attention == AttentionKernel::unfused && attention(node);
      default:
        return false;
    }
  }

  bool loss(const Node& node) {
    const bool is_shared = node.op == Op::cross_entropy_stats;
    if (!is_shared && node.op != Op::cross_entropy) return false;
    Node of_type = node;
    of_type.attributes.storage = old_.tensor(node.inputs[0]).type.dtype;
    if (is_shared) {
      append_node(out_, of_type);
      return true;
    }
    finish(Op::nll_loss, node, {add(Op::log_softmax, of_type, {node.inputs[0]}), node.inputs[1]});
    out_.nodes.back().attributes.factor = node.attributes.factor;
    return true;
  }

 private:
  // Adds a node that belongs to the module of `at`, and returns its first output.
  int add(Op op, const Node& at, TensorIds inputs, double factor = 1) {
    Attributes attributes = at.attributes;
    attributes.factor = factor;
    return out_.output(out_.add(op, at.module, inputs, attributes));
  }
  // Adds the last of the nodes that replace `at`. Its output is the output of `at`.
  void finish(Op op, const Node& at, TensorIds inputs) {
    add(op, at, inputs);
    make_as(out_, 0, at.outputs[0]);
  }

  // Writes transformers' NewGELUActivation: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
  bool gelu(const Node& node) {
    constexpr double root = 0.79788456080286535588, cubic = 0.044715;
    const int x = node.inputs[0];
    const int half = add(Op::scale, node, {x}, 0.5);
    const int third = add(Op::scale, node, {add(Op::cube, node, {x})}, cubic);
    const int inner = add(Op::scale, node, {add(Op::add, node, {x, third})}, root);
    const int one_more = add(Op::add_constant, node, {add(Op::tanh, node, {inner})}, 1);
    finish(Op::multiply, node, {half, one_more});
    return true;
  }

  bool swiglu(const Node& node) {
    finish(Op::multiply, node, {add(Op::silu, node, {node.inputs[0]}), node.inputs[1]});
    return true;
  }

  bool rms_norm(const Node& node) {
    const int x = node.inputs[0];
    const int root = add(Op::inverse_root, node, {add(Op::mean_of_squares, node, {x})});
    finish(Op::scale_columns, node, {add(Op::scale_rows, node, {x, root}), node.inputs[1]});
    return true;
  }

  bool rope(const Node& node) {
    if (node.attributes.temperature != 0 || node.attributes.documents) return false;
    const int x = node.inputs[0];
    const int along = add(Op::times_cosine, node, {x});
    finish(Op::add, node, {along, add(Op::times_sine, node, {add(Op::rotate_half, node, {x})})});
    return true;
  }

  // Returns the score of a masked pair. It is finite, as in PyTorch code, so that a row in which
  // all pairs are masked has a softmax.
  double masked_score() const {
    constexpr double least_half = -65504, low = -3e38;
    return old_.precision == Precision::fp16 ? least_half : low;
  }

  bool attention(const Node& node) {
    const Attributes& a = node.attributes;
    const TensorIds heads = split_heads(node);
    int scores = add(Op::scores, node, {heads[0], heads[1]});
    if (a.scaled_scores) scores = add(Op::scale, node, {scores}, score_scale(a));
    if (a.score_cap > 0) {
      scores = add(Op::tanh, node, {add(Op::scale, node, {scores}, 1 / a.score_cap)});
      scores = add(Op::scale, node, {scores}, a.score_cap);
    }
    if (a.alibi) scores = add(Op::add_alibi, node, {scores});
    if (a.relative_buckets > 0) scores = add(Op::add_relative_bias, node, {scores, node.inputs[3]});
    if (a.causal || a.documents) {
      TensorIds masked{scores};
      if (a.documents) masked.push_back(node.inputs[node.inputs.size() - 1]);
      scores = add(Op::mask_scores, node, masked, masked_score());
    }
    int weights = add(Op::softmax, node, {scores});
    if (a.dropout > 0) weights = add(Op::drop_probabilities, node, {weights});
    Node joined = node;
    joined.attributes.packing = Packing::separate;
    joined.attributes.head_dim = value_dim_of(a);
    finish(Op::join_heads, joined, {add(Op::weigh_values, node, {weights, heads[2]})});
    return true;
  }

  TensorIds split_heads(const Node& node) {
    if (node.attributes.packing != Packing::separate) {
      add(Op::split_heads, node, {node.inputs[0]});
      return out_.nodes.back().outputs;
    }
    TensorIds heads;
    Node values = node;
    values.attributes.head_dim = value_dim_of(node.attributes);
    for (int i = 0; i < 3; ++i)
      heads.push_back(add(Op::split_heads, i < 2 ? node : values, {node.inputs[i]}));
    return heads;
  }

  const Graph& old_;
  Graph out_;
};

}  // namespace

Graph eager_operations(Graph graph, const Plan&) {
  return EagerWriter(graph).run(&EagerWriter::module);
}

Graph eager_loss(Graph graph, const Plan&) { return EagerWriter(graph).run(&EagerWriter::loss); }

}  // namespace meshwright::compiler
