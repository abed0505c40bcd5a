// Appends a block's mixture of experts: the router, the experts, and the experts that all tokens go
// through.
#include "models/architectures/graph_builder.h"
#include "models/program/graph/experts.h"

namespace meshwright::architectures {

Attributes GraphBuilder::expert_attributes() const {
  Attributes a = attributes();
  const int s = sequence_;
  a.experts = m_.experts;
  a.experts_per_token = m_.experts_per_token;
  a.weights_of_all = m_.expert_weights_of_all;
  a.expert_capacity =
      m_.expert_capacity_factor > 0
          ? expert_capacity(m_.expert_capacity_factor, s, m_.experts_per_token, m_.experts)
          : s;
  const int targets =
      m_.head == Head::qa ? 2 : s;  // targets of a sequence, over which the loss is a mean
  if (m_.expert_dropless) {
    a.expert_rows = rows_ * m_.experts_per_token;
    a.expert_rank_factor = m_.expert_rank_capacity_factor;
    a.overflow_is_error = !m_.expert_overflow_drops;
  }
  a.sigmoid_scores = m_.sigmoid_scores;
  a.expert_groups = m_.expert_groups;
  a.groups_per_token = m_.groups_per_token;
  a.groups_by_two = m_.groups_by_two;
  a.expert_weight_scale = m_.expert_weight_scale;
  a.swiglu_limit = m_.swiglu_limit;
  const int ahead = m_.has_experts(m_.layers - 1) ? training_.mtp_layers : 0;
  const int blocks = m_.layers - static_cast<int>(m_.dense_blocks.size()) + ahead;
  a.balance = m_.router_aux_loss_coef * targets / blocks;
  return a;
}

std::optional<PublishedPart> GraphBuilder::part_of_experts(const ExpertMatrix& matrix,
                                                           bool is_bias) const {
  PublishedPart part;
  part.group_rows = matrix.out;
  part.of_experts = true;
  part.transposed = names_.bare_experts && !is_bias;
  const bool with_gate = !names_.published_expert_gate_in.empty() && matrix.name != names_.mlp.out;
  if (!with_gate && !part.transposed) return {};
  part.whole = in_block(with_gate ? names_.published_expert_gate_in : matrix.name) +
               std::string(expert_suffix(is_bias));
  if (!with_gate) return part;
  const bool is_gate = matrix.name == names_.mlp.gate;
  part.group_rows = 2 * matrix.out;
  part.step = names_.experts_in_turn ? 2 : 1;
  part.first = is_gate ? 0 : names_.experts_in_turn ? 1 : matrix.out;
  return part;
}

std::string_view GraphBuilder::expert_suffix(bool is_bias) const {
  if (names_.bare_experts) return is_bias ? "_bias" : "";
  return is_bias ? ".bias" : ".weight";
}

// A tensor group splits each expert as it splits an MLP: along the dimension between its two
// matmuls.
int GraphBuilder::expert_parameter(const ExpertMatrix& matrix, bool is_bias) {
  Parameter p;
  p.name = in_block(matrix.name) + std::string(expert_suffix(is_bias));
  p.global_shape =
      is_bias ? Shape{m_.experts, matrix.out} : Shape{m_.experts, matrix.out, matrix.in};
  p.padded_shape = p.shape = p.global_shape;
  p.dtype = dtype_;
  if (matrix.name != names_.mlp.out)
    p.cut = {1, {matrix.out}};
  else if (!is_bias)
    p.cut = {2, {matrix.in}};
  p.of_experts = true;
  p.initial = is_bias ? Initial::zeros : matrix.initial;
  p.part = part_of_experts(matrix, is_bias);
  return graph_.add_parameter(std::move(p));
}

int GraphBuilder::expert_linear(int x, const ExpertMatrix& matrix) {
  const std::string path = in_block(matrix.name);
  const auto with_counts = [&](TensorIds inputs) {
    if (m_.expert_dropless) inputs.push_back(counts_);
    return inputs;
  };
  const int y = apply(Op::expert_linear, path, with_counts({x, expert_parameter(matrix, false)}),
                      expert_attributes());
  if (!m_.expert_biases) return y;
  return apply(Op::add_expert_bias, path, with_counts({y, expert_parameter(matrix, true)}),
               expert_attributes());
}

int GraphBuilder::shared_experts(int x) {
  const std::string path = in_block(names_.shared_experts);
  const int y = gated_mlp(x, path, m_.shared_ffn);
  if (!m_.shared_gate) return y;
  const int gate =
      linear(x, {.path = in_block(names_.shared_gate), .in = m_.hidden, .out = 1, .bias = false});
  return apply(Op::gate_rows, path, {y, gate}, attributes());
}

int GraphBuilder::experts(int x) {
  const Attributes a = expert_attributes();
  const int shared = m_.shared_ffn > 0 ? shared_experts(x) : -1;
  const int logits = linear(x, {.path = in_block(names_.router),
                                .in = m_.hidden,
                                .out = m_.experts,
                                .bias = m_.router_bias});
  TensorIds scored = {logits};
  if (m_.expert_bias) scored.push_back(choice_bias());
  const int route = graph_.add(Op::route, module(in_block(names_.router)), scored, a);
  const int weights = graph_.output(route, 0), slots = graph_.output(route, 1);
  if (m_.expert_dropless) counts_ = graph_.output(route, 3);
  const int read =
      m_.weighed_inputs ? apply(Op::scale_rows, in_block(names_.mlp.module), {x, weights}, a) : x;
  const int rows = apply(Op::dispatch, in_block(names_.mlp.module), {read, slots}, a);
  const int gate = expert_linear(rows, {names_.mlp.gate, m_.hidden, m_.ffn});
  const int up = expert_linear(rows, {names_.mlp.in, m_.hidden, m_.ffn});
  const Op activation = m_.swiglu_limit > 0 ? Op::clamped_swiglu : Op::swiglu;
  const int y = apply(activation, in_block(names_.mlp.module), {gate, up}, a);
  const int out = expert_linear(y, {names_.mlp.out, m_.ffn, m_.hidden, Initial::residual_normal});
  const int routed =
      m_.weighed_inputs ? apply(Op::combine, in_block(names_.mlp.module), {out, slots}, a)
                        : apply(Op::combine, in_block(names_.mlp.module), {out, weights, slots}, a);
  const std::string path = in_block(names_.mlp.module);
  const int all = shared < 0 ? routed
                             : scaled(apply(Op::add, path, {routed, shared}, attributes()), path,
                                      m_.shared_mean ? 0.5 : 1);
  return dropout(all, path);
}

int GraphBuilder::choice_bias() {
  Parameter p;
  p.name = names_.router_bias.find('.') != std::string_view::npos
               ? in_block(names_.router_bias)
               : in_block(names_.router) + "." + std::string(names_.router_bias);
  p.global_shape = p.padded_shape = p.shape = {m_.experts};
  p.dtype = dtype_;
  p.initial = Initial::zeros;
  p.decay = p.counted = false;
  return graph_.add_parameter(std::move(p));
}

int GraphBuilder::gated_mlp(int x, const std::string& path, std::int64_t width) {
  const bool in_one = !names_.shared_gate_in.empty();
  const std::string last(in_one ? names_.shared_out : "down_proj");
  const auto widened = [&](const char* name, std::int64_t first) {
    Matrix matrix{.path = path + "." + name, .in = m_.hidden, .out = width, .bias = m_.biases};
    if (in_one)
      matrix.part =
          PublishedPart{path + "." + std::string(names_.shared_gate_in), 1, 2 * width, first};
    return linear(x, matrix);
  };
  const int gate = widened("gate_proj", 0);
  const int up = widened("up_proj", width);
  const int y = apply(Op::swiglu, path, {gate, up}, attributes());
  return linear(y, {.path = path + "." + last,
                    .in = width,
                    .out = m_.hidden,
                    .bias = m_.biases,
                    .residual = true});
}

}  // namespace meshwright::architectures
