#include "models/passes/split_tensors.h"

#include <array>

#include "models/core/error.h"

namespace meshwright {

namespace {

// What one rank holds of an activation.
enum class Layout : std::uint8_t {
  whole,    // everything, the same on every rank
  rows,     // its share of the rows (sequence parallelism)
  columns,  // its share of the columns (heads, or hidden units of the MLP)
};

class Splitter {
 public:
  Splitter(const Graph& whole, int degree, bool sequence_parallel)
      : whole_(whole), degree_(degree), sequence_parallel_(sequence_parallel) {
    copy_everything_but_nodes();
  }

  Graph run() {
    for (const Node& node : whole_.nodes) split(node);
    out_.loss = id_[static_cast<std::size_t>(whole_.loss)];
    return std::move(out_);
  }

 private:
  void copy_everything_but_nodes() {
    out_ = whole_;
    out_.tensors.clear();
    out_.nodes.clear();
    out_.parameters.clear();
    out_.tensor_degree = degree_;
    out_.sequence_parallel = sequence_parallel_;
    id_.assign(whole_.tensors.size(), -1);
    layout_.assign(whole_.tensors.size(), Layout::whole);
    gathered_.assign(whole_.tensors.size(), {-1, -1});
    for (std::size_t i = 0; i < whole_.tensors.size(); ++i) {
      const Tensor& tensor = whole_.tensors[i];
      if (tensor.role == Role::input) id_[i] = out_.add_tensor(tensor.type, Role::input);
      if (tensor.role == Role::parameter) id_[i] = add_cut(tensor.parameter);
    }
    const auto moved = [&](int id) { return id < 0 ? -1 : id_[static_cast<std::size_t>(id)]; };
    out_.tokens = moved(whole_.tokens);
    out_.targets = moved(whole_.targets);
    out_.positions = moved(whole_.positions);
  }

  int add_cut(int parameter_index) {
    Parameter parameter = whole_.parameters[static_cast<std::size_t>(parameter_index)];
    if (parameter.cut.dim >= 0) {
      for (std::int64_t segment : parameter.cut.segments)
        MESHWRIGHT_CHECK(segment % degree_ == 0, "verify(plan) lets only degrees pass that divide");
      parameter.shape = parameter.padded_shape;
      parameter.shape[parameter.cut.dim] /= degree_;
      parameter.is_cut = true;
    }
    return out_.add_parameter(std::move(parameter));
  }

  const Parameter& parameter_of(int tensor) const {
    return whole_.parameters[static_cast<std::size_t>(whole_.tensor(tensor).parameter)];
  }
  Layout layout(int tensor) const { return layout_[static_cast<std::size_t>(tensor)]; }
  int local(int tensor) const { return id_[static_cast<std::size_t>(tensor)]; }
  void set(int tensor, int id, Layout layout) {
    id_[static_cast<std::size_t>(tensor)] = id;
    layout_[static_cast<std::size_t>(tensor)] = layout;
  }

  int communicate(Op op, const Node& at, int input, bool gradient_is_whole = false) {
    Attributes attributes = at.attributes;
    attributes.tensor_degree = degree_;
    attributes.gradient_is_whole = gradient_is_whole;
    return out_.output(out_.add(op, at.module, {input}, attributes));
  }

  // The whole activation on every rank, whose gradients differ (each rank continues with its own
  // columns) and are therefore summed; or, with `same_gradient`, are the same everywhere.
  int whole_rows(const Node& at, int tensor, bool same_gradient) {
    if (layout(tensor) == Layout::whole && same_gradient) return local(tensor);
    int& cached = gathered_[static_cast<std::size_t>(tensor)][same_gradient ? 1 : 0];
    if (cached >= 0) return cached;
    MESHWRIGHT_CHECK(layout(tensor) != Layout::columns, "columns are never gathered");
    cached = layout(tensor) == Layout::rows
                 ? communicate(Op::sequence_gather, at, local(tensor), same_gradient)
                 : communicate(Op::tensor_copy, at, local(tensor));
    return cached;
  }

  // Partial sums on every rank become the sum, whole or in shares of the rows.
  int sum(const Node& at, int partial) {
    return communicate(sequence_parallel_ ? Op::sequence_scatter : Op::tensor_reduce, at, partial);
  }
  Layout summed_layout() const { return sequence_parallel_ ? Layout::rows : Layout::whole; }

  // Parameters of an operation that sees only a share of the rows get partial gradients.
  void note_partial(const Node& node) {
    for (int i = 1; i < node.inputs.size(); ++i) {
      const int parameter = out_.tensor(local(node.inputs[i])).parameter;
      if (parameter >= 0)
        out_.parameters[static_cast<std::size_t>(parameter)].partial_over_tensor = true;
    }
  }

  void split(const Node& node) {
    switch (info(node.op).split) {
      case SplitRule::vocabulary:
        return node.op == Op::embedding ? split_embedding(node) : split_cross_entropy(node);
      case SplitRule::linear:
        return split_linear(node);
      case SplitRule::heads:
        return split_heads(node);
      case SplitRule::rows:
      case SplitRule::elements:
        return split_rows(node);
      case SplitRule::whole:
        return keep_whole(node);
      case SplitRule::none:
        MESHWRIGHT_CHECK(false, "a forward graph of a whole model");
    }
  }

  void add_like(const Node& node, TensorIds inputs, const Attributes& attributes, Layout layout) {
    const int index = out_.add(node.op, node.module, inputs, attributes);
    for (int i = 0; i < node.outputs.size(); ++i)
      set(node.outputs[i], out_.output(index, i), layout);
  }

  void split_embedding(const Node& node) {
    Attributes attributes = node.attributes;
    attributes.vocabulary_parallel = true;
    attributes.tensor_degree = degree_;
    const int partial = out_.output(
        out_.add(node.op, node.module, {local(node.inputs[0]), local(node.inputs[1])}, attributes));
    set(node.outputs[0], sum(node, partial), summed_layout());
  }

  void split_cross_entropy(const Node& node) {
    Attributes attributes = node.attributes;
    attributes.vocabulary_parallel = true;
    attributes.tensor_degree = degree_;
    const int stats =
        out_.output(out_.add(Op::cross_entropy_stats, node.module,
                             {local(node.inputs[0]), local(node.inputs[1])}, attributes));
    const int all = communicate(Op::stats_gather, node, stats);
    const int combine = out_.add(Op::cross_entropy_combine, node.module, {all}, attributes);
    for (int i = 0; i < 2; ++i) set(node.outputs[i], out_.output(combine, i), Layout::whole);
  }

  void split_linear(const Node& node) {
    const Cut& cut = parameter_of(node.inputs[1]).cut;
    if (cut.dim < 0) return split_rows(node);
    const bool by_columns = cut.dim == (node.attributes.weight_in_out ? 1 : 0);
    if (by_columns) {
      TensorIds inputs{whole_rows(node, node.inputs[0], false), local(node.inputs[1])};
      if (node.inputs.size() > 2) inputs.push_back(local(node.inputs[2]));
      return add_like(node, inputs, node.attributes, Layout::columns);
    }
    MESHWRIGHT_CHECK(layout(node.inputs[0]) == Layout::columns,
                     "a row-cut product follows a column-cut one");
    const int partial = out_.output(out_.add(
        Op::linear, node.module, {local(node.inputs[0]), local(node.inputs[1])}, node.attributes));
    int result = sum(node, partial);
    if (node.inputs.size() > 2) {
      Attributes attributes = node.attributes;
      attributes.sequence_parallel = sequence_parallel_;
      attributes.tensor_degree = degree_;
      result = out_.output(
          out_.add(Op::add_bias, node.module, {result, local(node.inputs[2])}, attributes));
      if (sequence_parallel_)
        note_partial(
            Node{Op::add_bias, Phase::forward, 0, {node.inputs[0], node.inputs[2]}, {}, {}});
    }
    set(node.outputs[0], result, summed_layout());
  }

  void split_heads(const Node& node) {
    MESHWRIGHT_CHECK(layout(node.inputs[0]) == Layout::columns,
                     "attention works on this rank's heads");
    Attributes attributes = node.attributes;
    attributes.heads /= degree_;
    attributes.kv_heads /= degree_;
    attributes.tensor_degree = degree_;
    TensorIds inputs;
    for (int id : node.inputs) inputs.push_back(local(id));
    add_like(node, inputs, attributes, Layout::columns);
  }

  void split_rows(const Node& node) {
    const Layout kept = layout(node.inputs[0]);
    Attributes attributes = node.attributes;
    attributes.sequence_parallel = kept == Layout::rows;
    attributes.tensor_degree = degree_;
    TensorIds inputs;
    for (int id : node.inputs) {
      MESHWRIGHT_CHECK(whole_.tensor(id).role == Role::parameter || layout(id) == kept,
                       "operands of one operation lie alike");
      inputs.push_back(local(id));
    }
    if (kept == Layout::rows) note_partial(node);
    add_like(node, inputs, attributes, kept);
  }

  void keep_whole(const Node& node) {
    TensorIds inputs;
    for (int id : node.inputs)
      inputs.push_back(whole_.tensor(id).role == Role::activation ? whole_rows(node, id, true)
                                                                  : local(id));
    add_like(node, inputs, node.attributes, Layout::whole);
  }

  const Graph& whole_;
  int degree_;
  bool sequence_parallel_;
  Graph out_;
  std::vector<int> id_;  // whole tensor -> tensor of this rank
  std::vector<Layout> layout_;
  std::vector<std::array<int, 2>> gathered_;  // cached whole_rows, by same_gradient
};

}  // namespace

Graph split_tensors(Graph graph, const Plan& plan) {
  const int degree = plan.parallelism.tensor;
  if (degree == 1) return graph;
  return Splitter(graph, degree, plan.parallelism.sequence_parallel).run();
}

}  // namespace meshwright
