#include "models/compiler/passes/split/split_tensors.h"

#include <array>

#include "models/compiler/passes/split/split_hidden.h"
#include "models/core/error.h"
#include "models/program/graph/op_table.h"

namespace meshwright::compiler {

namespace {

// Returns the cuts that the model gives its parameters. With `whole_experts`, experts are not cut.
std::vector<Cut> usual_cuts(const Graph& whole, bool whole_experts) {
  std::vector<Cut> cuts;
  for (const Parameter& parameter : whole.parameters)
    cuts.push_back(whole_experts && parameter.of_experts ? Cut{} : parameter.cut);
  return cuts;
}

// Returns the attributes of an operation on the rows that one rank of a tensor group has. These
// rows are whole sequences if the degree divides the number of sequences. Otherwise all rows of the
// rank count as one sequence for the routing, whose experts take their share of the slots of whole
// sequences.
Attributes on_own_rows(Attributes a, int degree) {
  if (a.micro_batch % degree == 0) {
    a.micro_batch /= degree;
  } else {
    const auto share = [&](std::int64_t of_sequence) {
      return static_cast<int>((of_sequence * a.micro_batch + degree - 1) / degree);
    };
    a.expert_capacity = share(a.expert_capacity);
    a.sequence_length = share(a.sequence_length);
    a.micro_batch = 1;
  }
  if (is_dropless(a))
    a.expert_rows = std::int64_t{a.micro_batch} * a.sequence_length * a.experts_per_token;
  return a;
}

// Splits a graph in the layouts `megatron` and `speed`.
class BlockSplitter : public Splitter {
 public:
  BlockSplitter(const Graph& whole, const Parallelism& parallelism)
      : Splitter(whole,
                 parallelism.tensor_layout == TensorLayout::speed
                     ? cuts_by_hidden(whole, parallelism.tensor, false)
                     : usual_cuts(whole, whole_experts(parallelism)),
                 parallelism.tensor, parallelism.tensor_batch_own,
                 in_rows(parallelism) ? Held::rows : Held::whole),
        shares_rows_(in_rows(parallelism)),
        has_whole_experts_(whole_experts(parallelism)),
        may_overflow_(parallelism.expert > 1) {
    gathered_.assign(whole_.tensors.size(), {});
  }

 private:
  static bool in_rows(const Parallelism& parallelism) {
    return parallelism.sequence_parallel || parallelism.tensor_batch_own;
  }
  static bool whole_experts(const Parallelism& parallelism) {
    return parallelism.degrees().experts_over_tensor;
  }

  // Returns the whole activation on every rank. If `same_gradient` is false, its gradients differ
  // between ranks, because each continues with its own columns, and are therefore summed.
  int whole_rows(const Node& at, int tensor, bool same_gradient) {
    if (layout(tensor) == Held::whole && same_gradient) return local(tensor);
    Gathered& found = gathered_[tensor];
    if (found.unit != whole_.unit_of(at)) found = {whole_.unit_of(at)};
    int& cached = found.by_same_gradient[same_gradient ? 1 : 0];
    if (cached >= 0) return cached;
    MESHWRIGHT_CHECK(layout(tensor) != Held::columns, "columns are never gathered");
    cached = layout(tensor) == Held::rows
                 ? communicate(Op::sequence_gather, at, local(tensor), same_gradient)
                 : communicate(Op::tensor_copy, at, local(tensor));
    return cached;
  }

  // Sums the partial sums of all ranks. The result is whole, or in shares of the rows if ranks
  // share them.
  int sum(const Node& at, int partial) {
    return communicate(shares_rows_ ? Op::sequence_scatter : Op::tensor_reduce, at, partial);
  }
  Held summed_layout() const { return shares_rows_ ? Held::rows : Held::whole; }

  void split(const Node& node) override {
    switch (info(node.op).split) {
      case SplitRule::vocabulary:
        if (is_whole_loss(node)) return keep_whole(node);
        return node.op == Op::embedding ? split_embedding(node) : split_cross_entropy(node);
      case SplitRule::linear:
        return split_linear(node);
      case SplitRule::heads:
        // This is a norm of whole rows without weights, which has one head.
        if (node.op == Op::head_norm && layout(node.inputs[0]) != Held::columns)
          return split_rows(node);
        return split_attention(node);
      case SplitRule::rows:
        // This is a norm over all queries or all keys together, whose columns the ranks share.
        if (is_norm(node.op) && layout(node.inputs[0]) == Held::columns) return split_norm(node);
        return split_rows(node);
      case SplitRule::elements:
        return split_rows(node);
      case SplitRule::whole:
        return keep_whole(node);
      case SplitRule::first:
        return split_first(node);
      case SplitRule::experts:
        return has_whole_experts_ ? share_tokens(node) : split_experts(node);
      case SplitRule::none:
        MESHWRIGHT_CHECK(false, "a forward graph of a whole model");
    }
  }

  void split_embedding(const Node& node) {
    if (cut_of(node.inputs[1]).dim == 1) return gather_columns(node, look_up_columns(node));
    Attributes attributes = node.attributes;
    attributes.vocabulary_parallel = true;
    attributes.tensor_degree = degree_;
    const int partial = out_.output(
        out_.add(node.op, node.module, {whole_input(node, node.inputs[0]), local(node.inputs[1])},
                 attributes));
    set(node.outputs[0], sum(node, partial), summed_layout());
  }

  // In layout `speed`, gathers the columns of all ranks and then, if ranks share the rows, takes
  // this rank's rows.
  void gather_columns(const Node& node, int columns) {
    const int parts = communicate(Op::sequence_gather, node, columns, true);
    int result = apply(Op::parts_to_columns, node, {parts});
    if (shares_rows_) result = communicate(Op::sequence_slice, node, result);
    set(node.outputs[0], result, summed_layout());
  }

  // Splits the head in layout `speed`: each rank multiplies its columns of the activation, which
  // every rank has whole.
  void split_head(const Node& node) {
    const int x = whole_rows(node, node.inputs[0], true);
    const int parts = apply(Op::columns_to_parts, node, {x});
    sum_of_products(node, communicate(Op::sequence_slice, node, parts));
  }

  void split_linear(const Node& node) {
    const Cut& cut = cut_of(node.inputs[1]);
    if (cut.dim < 0) return split_rows(node);
    const bool by_columns = cut.dim == (node.attributes.weight_in_out ? 1 : 0);
    if (by_columns) {
      TensorIds inputs{whole_rows(node, node.inputs[0], false), local(node.inputs[1])};
      if (node.inputs.size() > 2) inputs.push_back(local(node.inputs[2]));
      return add_like(node, inputs, node.attributes, Held::columns);
    }
    if (layout(node.inputs[0]) != Held::columns) return split_head(node);
    const int partial = out_.output(out_.add(
        Op::linear, node.module, {local(node.inputs[0]), local(node.inputs[1])}, node.attributes));
    int result = sum(node, partial);
    if (node.inputs.size() > 2) {
      Attributes attributes = node.attributes;
      attributes.sequence_parallel = shares_rows_;
      attributes.tensor_degree = degree_;
      result = out_.output(
          out_.add(Op::add_bias, node.module, {result, local(node.inputs[2])}, attributes));
      if (shares_rows_)
        note_partial(
            Node{Op::add_bias, Phase::forward, 0, {node.inputs[0], node.inputs[2]}, {}, {}});
    }
    set(node.outputs[0], result, summed_layout());
  }

  // Splits attention and rope. The part of latent keys that all heads share is rotated on every
  // rank, for whole rows. Each rank's gradient of this part comes from its own heads.
  void split_attention(const Node& node) {
    if (node.op == Op::rope && layout(node.inputs[0]) != Held::columns)
      return add_like(node, {whole_rows(node, node.inputs[0], false)}, node.attributes,
                      Held::whole);
    if (node.op != Op::concat_heads || layout(node.inputs[1]) == Held::columns)
      return split_heads(node);
    Attributes attributes = node.attributes;
    attributes.heads /= degree_;
    const int shared = node.inputs[1];
    const int turned = whole_.nodes[whole_.tensor(shared).producer].op == Op::rope
                           ? local(shared)
                           : whole_rows(node, shared, false);
    add_like(node, {local(node.inputs[0]), turned}, attributes, Held::columns);
  }

  void split_rows(const Node& node) {
    const Held kept = layout(node.inputs[0]);
    Attributes attributes = node.attributes;
    attributes.sequence_parallel = kept == Held::rows;
    attributes.hidden_share = node.op == Op::dropout && kept == Held::columns;
    attributes.tensor_degree = degree_;
    for (int id : node.inputs)
      MESHWRIGHT_CHECK(whole_.tensor(id).role != Role::activation || layout(id) == kept,
                       "operands of one operation lie alike");
    if (kept == Held::rows) note_partial(node);
    add_like(node, locals(node.inputs), attributes, kept);
  }

  void keep_whole(const Node& node) {
    TensorIds inputs;
    for (int id : node.inputs)
      inputs.push_back(whole_.tensor(id).role == Role::activation ? whole_rows(node, id, true)
                                                                  : whole_input(node, id));
    add_like(node, inputs, node.attributes, Held::whole);
  }

  // Splits the operation that makes the input of the blocks. If ranks share the rows, each goes on
  // with its own rows.
  void split_first(const Node& node) {
    const int whole =
        out_.output(out_.add(node.op, node.module, locals(node.inputs), node.attributes));
    set(node.outputs[0], shares_rows_ ? communicate(Op::sequence_slice, node, whole) : whole,
        summed_layout());
  }

  // Splits the operations of experts. Every rank routes all tokens, and the gradient of the choice
  // is the same everywhere. After that, each rank has its columns of every expert. The experts'
  // outputs are partial sums until `combine` has weighed them, and so are the gradients of the
  // tokens and of the weights of choices where the split begins. That is `dispatch`, or the
  // weighing of tokens if they are weighed before it. A bias of partial sums is added in equal
  // shares. Its gradient, over whole rows, is the same everywhere.
  void split_experts(const Node& node) {
    TensorIds inputs = locals(node.inputs);
    switch (node.op) {
      case Op::route:
        inputs[0] = whole_rows(node, node.inputs[0], true);
        return add_like(node, inputs, node.attributes, Held::whole);
      case Op::scale_rows:
        inputs[0] = whole_rows(node, node.inputs[0], false);
        inputs[1] = communicate(Op::tensor_copy, node, inputs[1]);
        return add_like(node, inputs, node.attributes, Held::whole);
      case Op::dispatch:
        if (!is_weighed(node.inputs[0])) inputs[0] = whole_rows(node, node.inputs[0], false);
        return add_like(node, inputs, node.attributes, Held::whole);
      case Op::combine: {
        if (inputs.size() > 2) inputs[1] = communicate(Op::tensor_copy, node, inputs[1]);
        const int partial = out_.output(out_.add(node.op, node.module, inputs, node.attributes));
        return set(node.outputs[0], sum(node, partial), summed_layout());
      }
      case Op::add_expert_bias: {
        const bool by_columns = cut_of(node.inputs[1]).dim == 1;
        Attributes attributes = node.attributes;
        if (!by_columns) attributes.tensor_degree = degree_;
        return add_like(node, inputs, attributes, by_columns ? Held::columns : Held::whole);
      }
      default: {
        const int outputs = node.attributes.weight_in_out ? 2 : 1;
        const bool by_columns = cut_of(node.inputs[1]).dim == outputs;
        return add_like(node, inputs, node.attributes, by_columns ? Held::columns : Held::whole);
      }
    }
  }

  // Returns this rank's rows of an activation.
  int own_rows(const Node& at, int tensor) {
    return layout(tensor) == Held::rows ? local(tensor)
                                        : communicate(Op::sequence_slice, at, local(tensor));
  }

  // Gives each rank of the tensor group whole experts for its own rows, in the operations from
  // `route` to `combine`. If ranks have all rows outside of experts, they slice their rows before
  // these operations and gather them after.
  void share_tokens(const Node& node) {
    const Attributes own = on_own_rows(node.attributes, degree_);
    TensorIds inputs = locals(node.inputs);
    switch (node.op) {
      case Op::route:
        return share_route(node, own);
      case Op::scale_rows:
      case Op::dispatch:
        inputs[0] = own_rows(node, node.inputs[0]);
        return add_like(node, inputs, own, node.op == Op::dispatch ? Held::whole : Held::rows);
      case Op::combine: {
        const int rows = out_.output(out_.add(node.op, node.module, inputs, own));
        const int all = shares_rows_ ? rows : communicate(Op::sequence_gather, node, rows, true);
        return set(node.outputs[0], all, summed_layout());
      }
      default:
        return add_like(node, inputs, own, Held::whole);
    }
  }

  // Lets each rank route its own rows. The loss that balances experts is over whole sequences, so a
  // second route over all rows makes it, which gives no weights. If the rows of an expert group
  // have a limit, an overflow on one rank shows in the losses of all ranks of the tensor group,
  // because the loss of the step must be the same on all of them.
  void share_route(const Node& node, Attributes own) {
    TensorIds inputs = locals(node.inputs);
    if (own.balance > 0) {
      Attributes whole = node.attributes;
      whole.expert_weight_scale = 0;
      whole.expert_rows = 0;
      whole.overflow_is_error = false;
      inputs[0] = whole_rows(node, node.inputs[0], true);
      out_.add(node.op, node.module, inputs, whole);
      own.balance = 0;
    }
    inputs[0] = own_rows(node, node.inputs[0]);
    own.tensor_degree = degree_;
    const int route = out_.add(node.op, node.module, inputs, own);
    for (int i = 0; i < node.outputs.size(); ++i)
      set(node.outputs[i], out_.output(route, i), Held::rows);
    const bool overflows =
        is_dropless(own) && own.overflow_is_error && own.expert_rank_factor > 0 && may_overflow_;
    if (overflows) communicate(Op::tensor_reduce, node, out_.output(route, 2));
  }

  bool is_weighed(int tensor) const {
    const int producer = whole_.tensor(tensor).producer;
    return producer >= 0 && whole_.nodes[producer].op == Op::scale_rows;
  }

  // The tensors that whole_rows() has made of one tensor in `unit`, so that each is made only once
  // there. The index is the argument same_gradient, and -1 means that there is none yet. Another
  // unit makes its own, because it may be recomputed, or be on another stage.
  struct Gathered {
    int unit = -1;
    std::array<int, 2> by_same_gradient{-1, -1};
  };

  const bool shares_rows_, has_whole_experts_, may_overflow_;
  std::vector<Gathered> gathered_;
};

}  // namespace

Graph split_tensors(Graph graph, const Plan& plan) {
  const Parallelism& p = plan.parallelism;
  if (p.tensor == graph.tensor_degree) return graph;  // a captured model is laid out for its rank
  if (p.tensor_layout == TensorLayout::memory)
    return hidden_splitter(graph, p.tensor, p.tensor_batch_own)->run();
  return BlockSplitter(graph, p).run();
}

}  // namespace meshwright::compiler
