// Builds a model's forward graph: an embedding, the blocks, a final norm, a head and its loss.
#include <algorithm>
#include <cmath>

#include "models/architectures/captured/captured_model.h"
#include "models/architectures/graph_builder.h"
#include "models/architectures/onnx/imported_graph.h"
#include "models/core/hash.h"

namespace meshwright::architectures {

Graph GraphBuilder::build() {
  if (training_.packing || m_.hides_padding()) graph_.documents = input({rows_});
  int x = m_.reads_images() ? image_embeddings() : embeddings(graph_.tokens = input({rows_}));
  x = blocks(x);
  x = final_norm(x);
  if (m_.has_decoder()) x = decoder(x);
  std::vector<int> ahead;
  for (int depth = 1; depth <= training_.mtp_layers; ++depth)
    ahead.push_back(predict_ahead(ahead.empty() ? x : ahead.back(), depth));
  if (m_.head == Head::qa)
    question_answering_head(x);
  else if (m_.classifies_text())
    classification_head(x);
  else
    language_model_head(x, ahead);
  return std::move(graph_);
}

int GraphBuilder::parameter(const std::string& name, Shape shape, Initial initial, Cut cut) {
  const std::string stored = stored_name(name);
  const auto [found, is_new] = parameters_.try_emplace(stored, -1);
  if (is_new) found->second = new_parameter(stored, shape, initial, std::move(cut));
  return found->second;
}

std::string GraphBuilder::stored_name(const std::string& name) const {
  if (!m_.shares_layers() || prefix_.empty() || !name.starts_with(prefix_)) return name;
  return std::string(names_.shared_block) + "." + name.substr(prefix_.size());
}

int GraphBuilder::published_as(const std::string& name, Shape published, Shape shape) {
  const int tensor = parameter(name, shape, Initial::normal);
  Parameter& p = graph_.parameters.back();
  p.global_shape = published;
  p.decay = true;
  return tensor;
}

int GraphBuilder::new_parameter(const std::string& name, Shape shape, Initial initial, Cut cut) {
  Parameter p;
  p.name = name;
  p.global_shape = p.padded_shape = p.shape = shape;
  p.dtype = dtype_;
  p.cut = std::move(cut);
  p.initial = initial;
  p.decay = shape.rank >= 2;
  return graph_.add_parameter(std::move(p));
}

int GraphBuilder::parameter_of(const Matrix& matrix, const std::string& name, Shape shape,
                               Initial initial, Cut cut) {
  const int tensor = parameter(matrix.path + name, shape, initial, std::move(cut));
  if (matrix.part) {
    Parameter& made = graph_.parameters[graph_.tensor(tensor).parameter];
    made.part = matrix.part;
    made.part->whole += name;
  }
  return tensor;
}

int GraphBuilder::linear(int x, const Matrix& matrix) {
  const int out_axis = matrix.weight_in_out ? 1 : 0;
  const auto segments =
      matrix.segments.empty() ? std::vector<std::int64_t>{matrix.out} : matrix.segments;
  Cut weight_cut, bias_cut;
  if (matrix.side == Side::outputs) {
    weight_cut = {out_axis, segments};
    bias_cut = {0, segments};
  } else if (matrix.side == Side::inputs) {
    weight_cut = {1 - out_axis, {matrix.in}};
  }
  const Shape shape =
      matrix.weight_in_out ? Shape{matrix.in, matrix.out} : Shape{matrix.out, matrix.in};
  const Initial initial = matrix.residual ? Initial::residual_normal : Initial::normal;
  TensorIds inputs = {x, parameter_of(matrix, ".weight", shape, initial, weight_cut)};
  if (!matrix.bias_name.empty())
    inputs.push_back(parameter(matrix.bias_name, {matrix.out}, Initial::zeros, bias_cut));
  else if (matrix.bias)
    inputs.push_back(parameter_of(matrix, ".bias", {matrix.out}, Initial::zeros, bias_cut));
  Attributes a = attributes();
  a.weight_in_out = matrix.weight_in_out;
  return apply(Op::linear, matrix.path, inputs, a);
}

Attributes GraphBuilder::norm_attributes() const {
  Attributes a = attributes();
  a.epsilon = m_.norm_epsilon;
  a.one_plus_weight = m_.one_plus_norms;
  return a;
}

int GraphBuilder::norm_weight(const std::string& path, std::int64_t width, Cut cut) {
  return parameter(path + ".weight", {width}, m_.one_plus_norms ? Initial::zeros : Initial::ones,
                   std::move(cut));
}

int GraphBuilder::ones(const std::string& path, std::int64_t width) {
  const int tensor = parameter(path + ".weight", {width}, Initial::ones);
  Parameter& made = graph_.parameters[graph_.tensor(tensor).parameter];
  made.trainable = made.counted = made.decay = false;
  return tensor;
}

int GraphBuilder::norm(int x, const std::string& path) {
  Attributes a = norm_attributes();
  const std::int64_t width = graph_.tensor(x).type.shape[1];
  if (names_.bare_norms && m_.rms_norm) {  // a norm of heads without weights, of one head
    a.head_dim = static_cast<int>(width);
    return apply(Op::head_norm, path, {x}, a);
  }
  TensorIds inputs = {x, names_.bare_norms ? ones(path, width) : norm_weight(path, width)};
  if (m_.rms_norm) return apply(Op::rms_norm, path, inputs, a);
  if (m_.norm_bias) inputs.push_back(parameter(path + ".bias", {width}, Initial::zeros));
  return apply(Op::layer_norm, path, inputs, a);
}

int GraphBuilder::gelu(int x, const std::string& path) {
  Attributes a = attributes();
  a.gelu_tanh = m_.activation == Activation::gelu_tanh;
  return apply(Op::gelu, path, {x}, a);
}

int GraphBuilder::times(int x, const std::string& path, double factor) {
  Attributes a = attributes();
  a.factor = factor;
  return apply(Op::scale, path, {x}, a);
}

int GraphBuilder::capped(int x, const std::string& path, double cap) {
  if (cap == 0) return x;
  const int bounded = apply(Op::tanh, path, {scaled(x, path, 1 / cap)}, attributes());
  return times(bounded, path, cap);
}

void GraphBuilder::set_dropout(Attributes& a, const std::string& path) const {
  constexpr std::uint64_t odd = 0x9E3779B97F4A7C15;  // odd, to spread small seeds over all bits
  a.dropout = training_.dropout;
  if (a.dropout > 0) a.dropout_key = hash_of(path) ^ (training_.seed * odd);
}

int GraphBuilder::dropout(int x, const std::string& module_path, int rows) {
  if (training_.dropout == 0) return x;
  const std::string path = module_path + ".dropout";
  Attributes a = attributes();
  a.sequence_length = rows;
  set_dropout(a, path);
  return apply(Op::dropout, path, {x}, a);
}

int GraphBuilder::decoder(int encoded) {
  stack_ = names_.decoder;
  encoded_ = encoded;
  return final_norm(blocks(embeddings(graph_.decoder_tokens = input({rows_}))));
}

int GraphBuilder::blocks(int x) {
  for (int i = 0; i < m_.layers; ++i) {
    enter_block(in_stack(names_.block) + "." + std::to_string(i), i, false);
    x = block(x);
  }
  return x;
}

int GraphBuilder::final_norm(int x) {
  if (names_.norms.final.empty()) return x;
  const std::string path = in_stack(names_.norms.final);
  unit_ = graph_.add_unit(path, false);
  x = norm(x, path);
  return m_.has_decoder() ? dropout(x, path) : x;
}

std::string GraphBuilder::in_stack(std::string_view name) const {
  if (stack_.empty()) return std::string(name);
  return std::string(stack_) + std::string(name.substr(names_.encoder.size()));
}

int GraphBuilder::embeddings(int tokens) {
  unit_ = graph_.add_unit(in_stack(names_.embeddings.unit), false);
  Attributes a = attributes();
  a.vocabulary = m_.vocabulary;
  const std::string path = in_stack(names_.embeddings.tokens);
  const std::string table(names_.shared_tokens.empty() ? names_.embeddings.tokens
                                                       : names_.shared_tokens);
  const std::int64_t width = m_.embedding_width();
  table_ =
      parameter(table + ".weight", {m_.vocabulary, width}, Initial::normal, {0, {m_.vocabulary}});
  int x = scaled(apply(Op::embedding, path, {tokens, table_}, a), path, m_.embedding_scale);
  if (m_.learned_positions) x = positions(x);
  if (m_.token_types > 0) {
    const std::string types(names_.embeddings.token_types);
    const int row = parameter(types + ".weight", {m_.token_types, width}, Initial::normal);
    x = apply(Op::add_row, types, {x, row}, attributes());
  }
  if (!names_.embeddings.norm.empty()) x = norm(x, in_stack(names_.embeddings.norm));
  x = dropout(x, in_stack(names_.embeddings.unit));
  if (names_.embedding_projection.empty()) return x;
  return linear(x, {std::string(names_.embedding_projection), width, m_.hidden});
}

int GraphBuilder::image_embeddings() {
  unit_ = graph_.add_unit(std::string(names_.embeddings.unit), false);
  graph_.tokens = input({training_.micro_batch, m_.pixels()});
  const std::string path(names_.embeddings.tokens);
  Attributes a = attributes();
  a.patch_size = m_.patch_size;
  a.channels = m_.channels;
  a.made = dtype_;
  const int patches = apply(Op::image_patches, path, {graph_.tokens}, a);
  const std::int64_t h = m_.hidden, side = m_.patch_size;
  const int weight =
      published_as(path + ".weight", {h, m_.channels, side, side}, {h, m_.channels * side * side});
  const int bias = parameter(path + ".bias", {h}, Initial::zeros);
  int x = apply(Op::linear, path, {patches, weight, bias}, attributes());
  const std::string token(names_.class_token), positions(names_.embeddings.positions);
  x = apply(Op::prepend_row, token, {x, published_as(token, {1, 1, h}, {h})}, attributes());
  const int table = published_as(positions, {1, sequence_, h}, {sequence_, h});
  x = apply(Op::add_position, positions, {x, table}, attributes());
  return dropout(x, std::string(names_.embeddings.unit));
}

int GraphBuilder::positions(int x) {
  const std::string path = in_stack(names_.embeddings.positions);
  Attributes a = attributes();
  a.position_offset = m_.position_offset;
  const std::int64_t length = std::int64_t{m_.positions} + m_.position_offset;
  const int table = parameter(path + ".weight", {length, m_.embedding_width()}, Initial::normal);
  TensorIds inputs{x, table};
  if (training_.packing) tell_documents(inputs, a);
  return apply(Op::add_position, path, inputs, a);
}

void GraphBuilder::enter_block(const std::string& path, int index, bool predicts_ahead) {
  unit_ = graph_.add_unit(path, !predicts_ahead);
  graph_.units.back().predicts_ahead = predicts_ahead;
  prefix_ = path + ".";
  block_ = index;
  window_ = m_.window_of(index);
  turns_ = m_.has_rotary(index);
  chunk_ = turns_ && m_.attention_chunk < sequence_ ? m_.attention_chunk : 0;
}

// The published model joins the two vectors of a token end to end and multiplies them by one matrix
// [hidden, 2 * hidden]. Here each vector has a matmul of its own and the results are added: the
// first columns are for the tokens, the others for the previous depth's output.
int GraphBuilder::predict_ahead(int x, int depth) {
  const std::string path(names_.block);
  enter_block(path + "." + std::to_string(m_.layers + depth - 1), m_.layers - 1, true);
  TokenAhead& ahead = graph_.ahead.emplace_back();
  ahead.tokens = input({rows_});
  ahead.targets = input({rows_});
  Attributes a = attributes();
  a.vocabulary = m_.vocabulary;
  const std::string tokens = in_block("embed_tokens");
  const int embedded = dropout(
      scaled(apply(Op::embedding, tokens, {ahead.tokens, table_}, a), tokens, m_.embedding_scale),
      tokens);
  const auto projected = [&](int from, std::string_view norm_name, std::string_view name,
                             std::int64_t first) {
    return linear(norm(from, in_block(norm_name)),
                  {.path = in_block(name),
                   .in = m_.hidden,
                   .out = m_.hidden,
                   .bias = false,
                   .weight_in_out = true,
                   .part = PublishedPart{.whole = in_block("eh_proj"),
                                         .group_rows = 2 * m_.hidden,
                                         .first = first,
                                         .transposed = true}});
  };
  const int of_token = projected(embedded, "enorm", "e_proj", 0);
  const int of_before = projected(x, "hnorm", "h_proj", m_.hidden);
  x = block(apply(Op::add, in_block("eh_proj"), {of_token, of_before}, attributes()));
  return norm(x, in_block("shared_head.norm"));
}

int GraphBuilder::block(int x) {
  const std::string path = prefix_.substr(0, prefix_.size() - 1);
  const auto add = [&](int a, int b) { return apply(Op::add, path, {a, b}, attributes()); };
  if (names_.post_norm) {
    x = norm(add(attention(x), x), in_block(names_.norms.attention));
    if (encoded_ >= 0) x = norm(add(cross_attention(x), x), in_block(names_.cross_norm));
    return norm(add(mlp(x), x), in_block(names_.norms.mlp));
  }
  if (names_.branch_norm) {
    x = add(norm(attention(x), in_block(names_.norms.attention)), x);
    return add(norm(mlp(x), in_block(names_.norms.mlp)), x);
  }
  const int normed =
      names_.bare_first_block && block_ == 0 ? x : norm(x, in_block(names_.norms.attention));
  if (!m_.parallel_residual) {
    const auto branch = [&](int y, std::string_view norm_name) {
      return scaled(norm_if(y, norm_name), path, m_.residual_scale);
    };
    x = add(branch(attention(normed), names_.attention_out_norm), x);
    if (encoded_ >= 0) x = add(cross_attention(norm(x, in_block(names_.cross_norm))), x);
    const bool no_out_norm = names_.experts_out_norm && !m_.has_experts(block_);
    return add(branch(mlp(norm(x, of_mlp(names_.norms.mlp))),
                      no_out_norm ? std::string_view() : names_.mlp_out_norm),
               x);
  }
  const bool one_norm = m_.one_norm || names_.norms.attention == names_.norms.mlp;
  const int mlp_input = one_norm ? normed : norm(x, in_block(names_.norms.mlp));
  return add(add(attention(normed), mlp(mlp_input)), x);
}

std::string GraphBuilder::of_mlp(std::string_view name) const {
  if (encoded_ < 0 || names_.mlp_layer.empty()) return in_block(name);
  return in_block(names_.decoder_mlp_layer) + std::string(name.substr(names_.mlp_layer.size()));
}

int GraphBuilder::activation(int x, const std::string& path) {
  const Op op = info(m_.activation).op;
  return op == Op::gelu ? gelu(x, path) : apply(op, path, {x}, attributes());
}

int GraphBuilder::mlp(int x) {
  if (m_.has_experts(block_)) return experts(x);
  if (m_.experts > 0)
    return dropout(gated_mlp(x, in_block(names_.mlp.module), m_.dense_ffn),
                   in_block(names_.mlp.module));
  const auto widen = [&](std::string_view name) {
    Matrix matrix{.path = of_mlp(name),
                  .in = m_.hidden,
                  .out = m_.ffn,
                  .side = Side::outputs,
                  .bias = m_.biases,
                  .weight_in_out = names_.weight_in_out};
    if (!names_.published_gate_in.empty())
      matrix.part = PublishedPart{in_block(names_.published_gate_in), 1, 2 * m_.ffn,
                                  name == names_.mlp.gate ? 0 : m_.ffn};
    return linear(x, matrix);
  };
  const std::string path = of_mlp(names_.mlp.module);
  int y = widen(m_.gated_ffn ? names_.mlp.gate : names_.mlp.in);
  const std::optional<Op> gated_op = info(m_.activation).gated_op;
  if (!m_.gated_ffn || !gated_op) y = activation(y, path);
  if (m_.gated_ffn) {
    const auto in = names_.gated_mlp_in.empty() ? names_.mlp.in : names_.gated_mlp_in;
    y = apply(gated_op.value_or(Op::multiply), path, {y, widen(in)}, attributes());
  }
  if (m_.activation_dropout) y = dropout(y, path);
  y = inner_norm(y, names_.mlp_inner_norm);
  const int out = linear(y, {.path = of_mlp(names_.mlp.out),
                             .in = m_.ffn,
                             .out = m_.hidden,
                             .side = Side::inputs,
                             .bias = m_.biases,
                             .residual = true,
                             .weight_in_out = names_.weight_in_out});
  return dropout(out, of_mlp(names_.mlp.out));
}

int GraphBuilder::chosen(int x, int count, std::string_view path) {
  graph_.positions = input({training_.micro_batch, count});
  return apply(Op::select_positions, std::string(path), {x, graph_.positions}, attributes());
}

int GraphBuilder::masked_transform(int x) {
  const int given = training_.predicted_positions;
  x = chosen(x, given > 0 ? given : std::max(1, sequence_ * 15 / 100), names_.head.unit);
  return head_transform(x, m_.biases);
}

int GraphBuilder::head_transform(int x, bool bias) {
  const std::string path(names_.head.dense);
  x = linear(x, {path, m_.hidden, m_.embedding_width(), Side::whole, bias});
  return norm(gelu(x, path), std::string(names_.head.norm));
}

int GraphBuilder::logits(int x) {
  const std::string path(names_.head.decoder);
  const bool by_width = m_.tied_embeddings && names_.scaled_tied_head;
  x = scaled(x, path, by_width ? 1 / std::sqrt(static_cast<double>(m_.hidden)) : m_.logit_scale);
  const Cut cut{0, {m_.vocabulary}};
  TensorIds inputs = {x, table_};
  if (!m_.tied_embeddings)
    inputs[1] = parameter(path + ".weight", {m_.vocabulary, graph_.tensor(x).type.shape[1]},
                          Initial::normal, cut);
  if (!names_.head.bias.empty() && (m_.biases || names_.biased_head))
    inputs.push_back(
        parameter(std::string(names_.head.bias), {m_.vocabulary}, Initial::zeros, cut));
  Attributes a = attributes();
  a.vocabulary = m_.vocabulary;
  return capped(apply(Op::linear, path, inputs, a), path, m_.logit_cap);
}

int GraphBuilder::cross_entropy(int logits, int targets, double weight) {
  Attributes a = attributes();
  a.vocabulary = m_.vocabulary;
  a.loss_by_operations = !training_.cross_entropy_fusion;
  a.factor = weight;
  return apply(Op::cross_entropy, std::string(names_.head.decoder), {logits, targets}, a);
}

void GraphBuilder::language_model_head(int x, const std::vector<int>& ahead) {
  unit_ = graph_.add_unit(std::string(names_.head.unit), false);
  if (m_.head == Head::mlm) x = masked_transform(x);
  if (m_.head == Head::lm && !names_.head.dense.empty()) x = head_transform(x, false);
  if (m_.head == Head::label) x = chosen(x, 1, names_.head.unit);  // the class token, at index 0
  const int next = logits(x);
  graph_.targets = input({graph_.tensor(next).type.shape[0]});
  graph_.loss = cross_entropy(next, graph_.targets);
  const double weight = training_.mtp_loss_weight.value_or(default_mtp_loss_weight);
  for (std::size_t i = 0; i < ahead.size(); ++i) {
    // The loss is a mean over the tokens that have a target at this depth. The last i + 1 tokens of
    // a sequence have none.
    const double there = 1 - static_cast<double>(i + 1) / sequence_;
    TokenAhead& each = graph_.ahead[i];
    each.loss = cross_entropy(logits(ahead[i]), each.targets,
                              weight / static_cast<double>(ahead.size()) / there);
  }
}

void GraphBuilder::question_answering_head(int x) {
  const std::string path = "qa_outputs";
  unit_ = graph_.add_unit(path, false);
  const int logits = linear(x, {path, m_.hidden, 2});
  graph_.targets = input({training_.micro_batch, 2});
  graph_.loss = apply(Op::span_loss, path, {logits, graph_.targets}, attributes());
}

void GraphBuilder::classification_head(int x) {
  const std::string path(names_.class_output), dense(names_.class_dense);
  unit_ = graph_.add_unit(path, false);
  x = chosen(x, 1, path);
  if (!dense.empty()) {
    if (names_.class_dropout) x = dropout(x, dense, 1);
    x = linear(x, {dense, m_.hidden, m_.hidden});
    x = apply(names_.class_relu ? Op::relu : Op::tanh, dense, {x}, attributes());
    x = dropout(x, path, 1);
  }
  const int logits = linear(x, {path, m_.hidden, m_.classes, Side::whole, !dense.empty()});
  Attributes a = attributes();
  a.loss_by_operations = !training_.cross_entropy_fusion;
  graph_.targets = input({training_.micro_batch});
  graph_.loss = apply(Op::cross_entropy, path, {logits, graph_.targets}, a);
}

Graph build_graph(const Model& model, const Training& training) {
  if (model.imported) return lay_out(model, training);
  if (model.captured) return lay_out_captured(model, training);
  return GraphBuilder(model, training).build();
}

}  // namespace meshwright::architectures
