#include "models/compiler/passes/split/split_hidden.h"

#include "models/compiler/passes/graph/head_product.h"
#include "models/core/error.h"
#include "models/program/graph/op_table.h"

namespace meshwright::compiler {

namespace {

class Cutter {
 public:
  Cutter(const Graph& whole, int degree) : whole_(whole), degree_(degree) {
    for (const Parameter& parameter : whole.parameters) cuts_.push_back(parameter.cut);
  }

  void cut(const Node& node, bool everything) {
    if (node.op == Op::embedding) cut_along(node.inputs[1], 1);
    if (node.op == Op::linear && (everything || is_head(node))) cut_product(node);
    if (!everything) return;
    if (node.op == Op::add_position || node.op == Op::add_row) cut_along(node.inputs[1], 1);
    if (is_norm(node.op))
      for (int i = 1; i < node.inputs.size(); ++i) cut_along(node.inputs[i], 0);
  }

  std::vector<Cut> result() { return std::move(cuts_); }

 private:
  // Returns whether the node is the matmul whose outputs are the vocabulary's logits.
  bool is_head(const Node& node) const {
    for (const Node& user : whole_.nodes)
      if (is_over_vocabulary(user)) {
        const int product = head_product(whole_, user.inputs[0]);
        if (product >= 0 && whole_.nodes[product].outputs[0] == node.outputs[0]) return true;
      }
    return false;
  }

  Cut& cut_of(int tensor) { return cuts_[whole_.tensor(tensor).parameter]; }

  void cut_along(int tensor, int dim) {
    cut_of(tensor) = {dim, {whole_.tensor(tensor).type.shape[dim]}};
  }

  // Splits the weight of a matmul by its inputs, and the bias as the outputs are divided over
  // ranks. A bias stays whole if the ranks cannot share the outputs.
  void cut_product(const Node& node) {
    const int out_axis = node.attributes.weight_in_out ? 1 : 0;
    const Cut& usual = whole_.parameters[whole_.tensor(node.inputs[1]).parameter].cut;
    const std::int64_t width = whole_.tensor(node.inputs[1]).type.shape[out_axis];
    if (node.inputs.size() > 2) {
      if (!shares_columns(whole_, node, degree_))
        cut_of(node.inputs[2]) = {};
      else if (usual.dim == out_axis)
        cut_of(node.inputs[2]) = {0, usual.segments};
      else
        cut_of(node.inputs[2]) = {0, {width}};
    }
    cut_along(node.inputs[1], 1 - out_axis);
  }

  const Graph& whole_;
  int degree_;
  std::vector<Cut> cuts_;
};

class HiddenSplitter : public Splitter {
 public:
  HiddenSplitter(const Graph& whole, int degree, bool own_batch)
      : Splitter(whole, cuts_by_hidden(whole, degree, true), degree, own_batch, Held::columns) {}

 private:
  void split(const Node& node) override {
    switch (info(node.op).split) {
      case SplitRule::vocabulary:
        if (is_whole_loss(node)) return split_choice(node);
        if (node.op == Op::cross_entropy) return split_cross_entropy(node);
        return set(node.outputs[0], look_up_columns(node), Held::columns);
      case SplitRule::linear:
        MESHWRIGHT_CHECK(layout(node.inputs[0]) == Held::columns, "rows come in columns");
        return sum_of_products(node, local(node.inputs[0]));
      case SplitRule::heads:
        return split_heads(node);
      case SplitRule::rows:
      case SplitRule::elements:
        if (is_norm(node.op)) return split_norm(node);
        return split_elements(node);
      case SplitRule::whole:
        return split_choice(node);
      case SplitRule::first:
      case SplitRule::experts:
        MESHWRIGHT_CHECK(false, "verify(plan) lets no image and no experts pass");
      case SplitRule::none:
        MESHWRIGHT_CHECK(false, "a forward graph of a whole model");
    }
  }

  void split_elements(const Node& node) {
    const Held held = layout(node.inputs[0]);
    Attributes attributes = node.attributes;
    attributes.hidden_share = node.op == Op::dropout && held == Held::columns;
    add_like(node, locals(node.inputs), attributes, held);
  }

  // Splits an operation that chooses rows, whose columns stay on their ranks, or a loss that reads
  // whole logits (an answer's span, a class).
  void split_choice(const Node& node) {
    add_like(node, {local(node.inputs[0]), whole_input(node, node.inputs[1])}, node.attributes,
             layout(node.inputs[0]));
  }
};

}  // namespace

std::vector<Cut> cuts_by_hidden(const Graph& whole, int degree, bool everything) {
  Cutter cutter(whole, degree);
  for (const Node& node : whole.nodes) cutter.cut(node, everything);
  return cutter.result();
}

std::unique_ptr<Splitter> hidden_splitter(const Graph& whole, int degree, bool own_batch) {
  return std::make_unique<HiddenSplitter>(whole, degree, own_batch);
}

}  // namespace meshwright::compiler
