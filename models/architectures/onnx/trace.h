// Turns the nodes of an ONNX graph into expressions (expression.h), one node after the other.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "models/architectures/onnx/expression.h"

namespace meshwright::architectures {

struct OnnxTrace {
  std::int64_t batch = 0, sequence = 0;  // of the traced tokens
  std::vector<OnnxExpression> expressions;
  OnnxValue logits;
};

// Returns the expressions from input_ids to the output `logits`, or to the first output if none has
// that name. The sequences have `sequence` tokens if the file does not fix their length.
// attention_mask is all ones, position_ids count from 0, and token_type_ids are 0. Throws an
// InputError that begins with the path for everything that is not known.
OnnxTrace trace_onnx(const OnnxFile& file, std::int64_t sequence);

// Returns the names of the operations that can be read, sorted.
const std::vector<std::string>& known_onnx_operations();

class OnnxTracer {
 public:
  OnnxTracer(const OnnxFile& file, std::int64_t sequence) : file_(file), sequence_(sequence) {}
  OnnxTrace trace();

 private:
  using Values = std::vector<OnnxValue>;

  // The functions from here on are defined in trace.cpp.
  void bind_inputs();
  void bind_tokens(const OnnxInput& input);
  std::vector<bool> needed_nodes(const std::string& output) const;
  void check_names() const;
  const OnnxValue& value_of(const std::string& name);
  void step(const OnnxNode& node);
  Values results_of(const OnnxNode& node, Values& inputs);
  Values of_weights(const OnnxNode& node, Values& inputs);
  Values folded(const OnnxNode& node, Values& inputs);
  Values traced(const OnnxNode& node, Values& inputs);
  std::optional<OnnxValue> tested(const OnnxNode& node, const Values& inputs);
  KnownPtr known_of(const OnnxValue& value);
  OnnxValue rows_of_weight(const OnnxValue& table, const OnnxValue& indices);

  // The functions from here on are defined in trace_views.cpp. viewed() returns nothing if the
  // operation is not a view.
  std::optional<Values> viewed(const OnnxNode& node, Values& inputs);
  OnnxValue with_view(const OnnxValue& value, OnnxView view) const;
  OnnxValue reshaped_to(const OnnxValue& value, const OnnxDims& dims) const;
  OnnxValue slice_of(const OnnxValue& value, std::size_t axis, std::int64_t begin,
                     std::int64_t count) const;
  OnnxValue one_of(const OnnxNode& node, const OnnxValue& value, const Known& index) const;

  // The functions from here on are defined in rules.cpp.
  OnnxValue add(const OnnxValue& a, const OnnxValue& b);
  OnnxValue add_known(const OnnxValue& x, const OnnxValue& known);
  // Returns after how many rows `weight` repeats: 1, one for each position, or all, also if the
  // weight is too large to compare.
  std::int64_t rows_before_repeats(const OnnxValue& weight);
  OnnxValue add_weight(const OnnxValue& x, const OnnxValue& weight);
  OnnxValue multiply(const OnnxValue& a, const OnnxValue& b);
  OnnxValue multiply_weight(const OnnxValue& x, const OnnxValue& weight);
  OnnxValue product_of(OnnxForm form, const OnnxValue& a, const OnnxValue& b);
  OnnxValue scaled(const OnnxValue& x, double factor);
  OnnxValue divide(const OnnxValue& a, const OnnxValue& b);
  OnnxValue subtract(const OnnxValue& a, const OnnxValue& b);
  OnnxValue mean(const OnnxNode& node, const Values& inputs);
  OnnxValue norm(const OnnxNode& node, const Values& inputs);
  OnnxValue gelu(const OnnxNode& node, const OnnxValue& x);
  OnnxValue gemm(const OnnxNode& node, const Values& inputs);
  OnnxValue linear(const OnnxValue& x, const OnnxValue& weight);
  OnnxValue unary(OnnxForm form, const OnnxValue& x, double number = 0);
  OnnxValue binary(OnnxForm form, const OnnxValue& a, const OnnxValue& b);
  std::optional<OnnxValue> as_gelu(double number, const Values& factors);
  void factors_of(const OnnxValue& value, double& number, Values& factors, int depth = 0) const;
  bool is_square_of(const OnnxValue& value, const OnnxValue& x) const;
  // Returns the epsilon of `root` = sqrt(mean(x^2) + epsilon), or nothing if `root` has another
  // form.
  std::optional<double> epsilon_of_root(const OnnxValue& root, const OnnxValue& x) const;
  // Returns whether x shows every element of its expression exactly once, in any order.
  bool is_reordered(const OnnxValue& x) const;
  // Returns whether x can be the scores of attention: a product of two computed matrices, scaled,
  // masked, or neither.
  bool is_scores(const OnnxValue& x) const;
  // Returns the initializer `weight`, which has real elements, as a constant instead of a weight.
  OnnxValue constant_of(const OnnxValue& weight);

  // The functions from here on are defined in attention_rules.cpp.
  OnnxValue matrix_product(const OnnxValue& a, const OnnxValue& b);
  OnnxValue softmax(const OnnxNode& node, const OnnxValue& x);
  OnnxValue where(const Values& inputs);
  std::optional<OnnxValue> masked(const OnnxValue& scores, const Known& mask);
  std::optional<OnnxValue> as_rope(const OnnxValue& a, const OnnxValue& b);
  OnnxValue rotated(const OnnxValue& x, const Known& cosine, const Known& sine);
  OnnxValue rotary_embedding(const OnnxNode& node, const Values& inputs);
  std::optional<OnnxValue> as_partly_rotated(const OnnxValue& first, const OnnxValue& second) const;
  OnnxValue rotated_together(const OnnxValue& q, const OnnxValue& k, const OnnxValue& v,
                             const OnnxExpression& attention);
  std::optional<OnnxValue> as_attention(const OnnxValue& weights, const OnnxValue& v);
  OnnxValue attention(const OnnxNode& node, const Values& inputs);
  OnnxValue joined(const OnnxNode& node, const Values& inputs);

  // The functions from here on make and look up expressions.
  OnnxValue make(OnnxExpression expression);
  OnnxValue whole(int expression) const;
  const OnnxExpression& at(const OnnxValue& value) const {
    return expressions_[static_cast<std::size_t>(value.expression)];
  }
  // Returns the value's expression if it has that form and the value shows all of it in order.
  // Returns nullptr otherwise.
  const OnnxExpression* as(const OnnxValue& value, OnnxForm form) const;
  static bool same(const OnnxValue& a, const OnnxValue& b) {
    return a.expression == b.expression && a.view == b.view;
  }
  // Returns the number in a known tensor of one element. Returns nothing for other values.
  std::optional<double> number_of(const OnnxValue& value);

  const OnnxFile& file_;
  std::int64_t batch_ = 2, sequence_;
  int node_ = -1;
  std::map<std::string, OnnxValue, std::less<>> values_;
  std::map<int, KnownPtr> loaded_;
  std::vector<OnnxExpression> expressions_;
};

}  // namespace meshwright::architectures
