// Base of every way of splitting a graph over a tensor group. It builds the graph of one rank node
// by node, next to the whole graph, and knows for each activation which part of it a rank holds.
#pragma once

#include <vector>

#include "models/program/graph/graph.h"

namespace meshwright::compiler {

bool is_norm(Op op);  // layer_norm or rms_norm, over whole rows

// Returns whether the node is a loss for which every rank has all logits: the loss of an answer's
// span or of a class.
bool is_whole_loss(const Node& node);

// Returns whether `degree` ranks of a tensor group can share the columns of a matmul's output. The
// degree must divide the columns. Ranks cannot share the logits of a loss that needs all of them on
// every rank (is_whole_loss()).
bool shares_columns(const Graph& whole, const Node& product, int degree);

class Splitter {
 public:
  virtual ~Splitter() = default;
  Graph run();  // may be called once

 protected:
  // `cuts` holds the cut of every parameter of `whole`, or {} if it stays whole. `whole` must
  // outlive the splitter. With `own_batch`, each rank reads its share of the micro-batch's
  // sequences.
  Splitter(const Graph& whole, std::vector<Cut> cuts, int degree, bool own_batch, Held held);

  virtual void split(const Node& node) = 0;

  const Parameter& parameter_of(int tensor) const {
    return whole_.parameters[whole_.tensor(tensor).parameter];
  }
  const Cut& cut_of(int tensor) const { return cuts_[whole_.tensor(tensor).parameter]; }
  Held layout(int tensor) const { return layout_[tensor]; }
  int local(int tensor) const { return id_[tensor]; }
  void set(int tensor, int id, Held layout);

  // Adds a node with the attributes of `at`, and returns its first output.
  int apply(Op op, const Node& at, TensorIds inputs);
  int communicate(Op op, const Node& at, int input, bool gradient_is_whole = false);
  // Adds the node itself, with this rank's operands. `layout` says how ranks hold its outputs.
  void add_like(const Node& node, TensorIds inputs, const Attributes& attributes, Held layout);
  // Returns an input of the graph (tokens, targets, positions or documents) for the whole
  // micro-batch. It is gathered if each rank reads its own share. Every rank reads all documents.
  int whole_input(const Node& at, int tensor);
  TensorIds locals(const TensorIds& tensors) const;

  // The functions from here on are the same for every tensor layout.
  void split_cross_entropy(const Node& node);
  void split_heads(const Node& node);
  // Splits a norm over columns that the ranks share. Its statistics are those of all columns.
  void split_norm(const Node& node);
  // Marks the parameters of an operation as having partial gradients, because the operation works
  // on a share of the rows or on some of the heads.
  void note_partial(const Node& node);
  // Looks up this rank's columns of every row in a table that is split by the hidden size, and
  // returns them.
  int look_up_columns(const Node& node);
  // Adds a linear layer whose weight is split along its input dimension. `x` holds this rank's
  // columns of the input. The partial results of all ranks are summed, and then the bias is added.
  // If shares_columns(), each rank gets its columns of the sum, otherwise each rank gets all of it.
  void sum_of_products(const Node& node, int x);

  const Graph& whole_;
  const std::vector<Cut> cuts_;
  const int degree_;
  Graph out_;

 private:
  void copy_everything_but_nodes(Held held);
  int add_cut(int parameter_index);

  bool own_batch_;
  std::vector<int> id_;  // tensor of the whole graph -> tensor of this rank
  std::vector<Held> layout_;
  std::vector<int> whole_input_;  // per tensor: the result of whole_input(), or -1
};

}  // namespace meshwright::compiler
