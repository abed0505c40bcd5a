// From a model's numbers to its forward graph: an embedding, the blocks, a final norm, a head and
// its loss.
#include <algorithm>
#include <cmath>
#include <map>

#include "models/core/hash.h"
#include "models/core/index.h"
#include "models/graph/experts.h"
#include "models/graph/graph.h"
#include "models/importers/architecture.h"
#include "models/importers/onnx/imported_graph.h"

namespace meshwright {

namespace {

// Which axis of a matrix tensor parallelism cuts: that of its outputs, that of its inputs, none.
enum class Side : std::uint8_t { outputs, inputs, whole };

struct Matrix {
  std::string path;
  std::int64_t in = 0, out = 0;
  Side side = Side::whole;
  bool bias = true;
  bool residual = false;                    // writes into the residual stream
  std::vector<std::int64_t> segments = {};  // of the outputs; {out} when not given
  bool weight_in_out = false;
  std::optional<PublishedPart> part = {};  // `whole`: a path
};

class Builder {
 public:
  Builder(const Model& model, const Training& training)
      : m_(model),
        training_(training),
        names_(info(model.architecture)),
        dtype_(storage_of(training.precision)) {
    graph_.vocabulary = model.vocabulary;
    graph_.micro_batch = training.micro_batch;
    // An image has a length of its own.
    sequence_ = model.reads_images() ? model.positions : training.sequence_length;
    graph_.sequence_length = sequence_;
    graph_.precision = training.precision;
    graph_.compiler = training.compiler;
    rows_ = std::int64_t{training.micro_batch} * sequence_;
  }

  Graph build() {
    int x = m_.reads_images() ? image_embeddings() : embeddings(graph_.tokens = input({rows_}));
    for (int i = 0; i < m_.layers; ++i) x = block(x, i);
    x = final_norm(x);
    if (m_.has_decoder()) x = decoder(x);
    if (m_.head == Head::qa)
      question_answering_head(x);
    else
      language_model_head(x);
    return std::move(graph_);
  }

 private:
  Attributes attributes() const {
    Attributes a;
    a.micro_batch = training_.micro_batch;
    a.sequence_length = sequence_;
    return a;
  }

  int module(const std::string& path) {
    const auto [found, is_new] = modules_.try_emplace(path, 0);
    if (is_new) found->second = graph_.add_module(path, unit_);
    return found->second;
  }

  // Appends an operation of one output that matters; returns that output.
  int apply(Op op, const std::string& path, TensorIds inputs, const Attributes& a) {
    return graph_.output(graph_.add(op, module(path), inputs, a));
  }

  int input(Shape shape) { return graph_.add_tensor({shape, Dtype::i32}, Role::input); }

  // One that blocks share is made by the first of them.
  int parameter(const std::string& name, Shape shape, Initial initial, Cut cut = {}) {
    const std::string stored = stored_name(name);
    const auto [found, is_new] = parameters_.try_emplace(stored, -1);
    if (is_new) found->second = new_parameter(stored, shape, initial, std::move(cut));
    return found->second;
  }

  // Where all blocks have the same parameters, these are not numbered.
  std::string stored_name(const std::string& name) const {
    if (!m_.shares_layers() || prefix_.empty() || !name.starts_with(prefix_)) return name;
    return std::string(names_.shared_block) + "." + name.substr(prefix_.size());
  }

  // A whole one that was published with more dimensions.
  int published_as(const std::string& name, Shape published, Shape shape) {
    const int tensor = parameter(name, shape, Initial::normal);
    Parameter& p = graph_.parameters.back();
    p.global_shape = published;
    p.decay = true;
    return tensor;
  }

  int new_parameter(const std::string& name, Shape shape, Initial initial, Cut cut) {
    Parameter p;
    p.name = name;
    p.global_shape = p.padded_shape = p.shape = shape;
    p.dtype = dtype_;
    p.cut = std::move(cut);
    p.initial = initial;
    p.decay = shape.rank >= 2;
    return graph_.add_parameter(std::move(p));
  }

  // Of the matrix, its weight or its bias.
  int parameter_of(const Matrix& matrix, const std::string& name, Shape shape, Initial initial,
                   Cut cut) {
    const int tensor = parameter(matrix.path + name, shape, initial, std::move(cut));
    if (matrix.part) {
      Parameter& made = graph_.parameters[at(graph_.tensor(tensor).parameter)];
      made.part = matrix.part;
      made.part->whole += name;
    }
    return tensor;
  }

  int linear(int x, const Matrix& matrix) {
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
    if (matrix.bias)
      inputs.push_back(parameter_of(matrix, ".bias", {matrix.out}, Initial::zeros, bias_cut));
    Attributes a = attributes();
    a.weight_in_out = matrix.weight_in_out;
    return apply(Op::linear, matrix.path, inputs, a);
  }

  Attributes norm_attributes() const {
    Attributes a = attributes();
    a.epsilon = m_.norm_epsilon;
    a.one_plus_weight = m_.one_plus_norms;
    return a;
  }

  int norm_weight(const std::string& path, std::int64_t width, Cut cut = {}) {
    return parameter(path + ".weight", {width}, m_.one_plus_norms ? Initial::zeros : Initial::ones,
                     std::move(cut));
  }

  int norm(int x, const std::string& path) {
    const Attributes a = norm_attributes();
    const std::int64_t width = graph_.tensor(x).type.shape[1];
    TensorIds inputs = {x, norm_weight(path, width)};
    if (m_.rms_norm) return apply(Op::rms_norm, path, inputs, a);
    if (m_.norm_bias) inputs.push_back(parameter(path + ".bias", {width}, Initial::zeros));
    return apply(Op::layer_norm, path, inputs, a);
  }

  int gelu(int x, const std::string& path) {
    Attributes a = attributes();
    a.gelu_tanh = m_.gelu_tanh;
    return apply(Op::gelu, path, {x}, a);
  }

  int times(int x, const std::string& path, double factor) {
    Attributes a = attributes();
    a.factor = factor;
    return apply(Op::scale, path, {x}, a);
  }
  int scaled(int x, const std::string& path, double factor) {
    return factor == 1 ? x : times(x, path, factor);
  }

  // cap * tanh(x / cap); 0: x. The last product is there for a cap of 1 too: the loss's gradient
  // takes the place of what the loss reads, and that of tanh reads what tanh made.
  int capped(int x, const std::string& path, double cap) {
    if (cap == 0) return x;
    const int bounded = apply(Op::tanh, path, {scaled(x, path, 1 / cap)}, attributes());
    return times(bounded, path, cap);
  }

  // Of the probabilities or activations of the module at `path`.
  void set_dropout(Attributes& a, const std::string& path) const {
    constexpr std::uint64_t odd = 0x9E3779B97F4A7C15;  // spreads small seeds over all bits
    a.dropout = training_.dropout;
    if (a.dropout > 0) a.dropout_key = hash_of(path) ^ (training_.seed * odd);
  }

  int dropout(int x, const std::string& module_path) {
    if (training_.dropout == 0) return x;
    const std::string path = module_path + ".dropout";
    Attributes a = attributes();
    set_dropout(a, path);
    return apply(Op::dropout, path, {x}, a);
  }

  // The decoder's blocks attend to all of the encoder's output.
  int decoder(int encoded) {
    stack_ = names_.decoder;
    encoded_ = encoded;
    int x = embeddings(graph_.decoder_tokens = input({rows_}));
    for (int i = 0; i < m_.layers; ++i) x = block(x, i);
    return final_norm(x);
  }

  // Of a stack.
  int final_norm(int x) {
    if (names_.final_norm.empty()) return x;
    const std::string path = in_stack(names_.final_norm);
    unit_ = graph_.add_unit(path, false);
    x = norm(x, path);
    return m_.has_decoder() ? dropout(x, path) : x;
  }

  // A name of the table, in the stack that is being built.
  std::string in_stack(std::string_view name) const {
    if (stack_.empty()) return std::string(name);
    return std::string(stack_) + std::string(name.substr(names_.encoder.size()));
  }

  int embeddings(int tokens) {
    unit_ = graph_.add_unit(in_stack(names_.embedding_unit), false);
    Attributes a = attributes();
    a.vocabulary = m_.vocabulary;
    const std::string path = in_stack(names_.tokens);
    const std::string table(names_.shared_tokens.empty() ? names_.tokens : names_.shared_tokens);
    const std::int64_t width = m_.embedding_width();
    table_ =
        parameter(table + ".weight", {m_.vocabulary, width}, Initial::normal, {0, {m_.vocabulary}});
    int x = scaled(apply(Op::embedding, path, {tokens, table_}, a), path, m_.embedding_scale);
    if (m_.learned_positions) x = positions(x);
    if (m_.token_types > 0) {
      const std::string types(names_.token_types);
      const int row = parameter(types + ".weight", {m_.token_types, width}, Initial::normal);
      x = apply(Op::add_row, types, {x, row}, attributes());
    }
    if (!names_.embedding_norm.empty()) x = norm(x, in_stack(names_.embedding_norm));
    x = dropout(x, in_stack(names_.embedding_unit));
    if (names_.embedding_projection.empty()) return x;
    return linear(x, {std::string(names_.embedding_projection), width, m_.hidden});
  }

  // The convolution whose stride is its width is a product with the patches.
  int image_embeddings() {
    unit_ = graph_.add_unit(std::string(names_.embedding_unit), false);
    graph_.tokens = input({training_.micro_batch, m_.pixels()});
    const std::string path(names_.tokens);
    Attributes a = attributes();
    a.patch_size = m_.patch_size;
    a.channels = m_.channels;
    a.made = dtype_;
    const int patches = apply(Op::image_patches, path, {graph_.tokens}, a);
    const std::int64_t h = m_.hidden, side = m_.patch_size;
    const int weight = published_as(path + ".weight", {h, m_.channels, side, side},
                                    {h, m_.channels * side * side});
    const int bias = parameter(path + ".bias", {h}, Initial::zeros);
    int x = apply(Op::linear, path, {patches, weight, bias}, attributes());
    const std::string token(names_.class_token), positions(names_.positions);
    x = apply(Op::prepend_row, token, {x, published_as(token, {1, 1, h}, {h})}, attributes());
    const int table = published_as(positions, {1, sequence_, h}, {sequence_, h});
    x = apply(Op::add_position, positions, {x, table}, attributes());
    return dropout(x, std::string(names_.embedding_unit));
  }

  int positions(int x) {
    const std::string path = in_stack(names_.positions);
    Attributes a = attributes();
    a.position_offset = m_.position_offset;
    const std::int64_t length = std::int64_t{m_.positions} + m_.position_offset;
    const int table = parameter(path + ".weight", {length, m_.embedding_width()}, Initial::normal);
    return apply(Op::add_position, path, {x, table}, a);
  }

  int block(int x, int index) {
    const std::string path = in_stack(names_.block) + "." + std::to_string(index);
    unit_ = graph_.add_unit(path, true);
    prefix_ = path + ".";
    block_ = index;
    window_ = m_.window_of(index);
    const auto add = [&](int a, int b) { return apply(Op::add, path, {a, b}, attributes()); };
    if (names_.post_norm) {
      x = norm(add(attention(x), x), in_block(names_.attention_norm));
      if (encoded_ >= 0) x = norm(add(cross_attention(x), x), in_block(names_.cross_norm));
      return norm(add(mlp(x), x), in_block(names_.mlp_norm));
    }
    if (names_.branch_norm) {
      x = add(norm(attention(x), in_block(names_.attention_norm)), x);
      return add(norm(mlp(x), in_block(names_.mlp_norm)), x);
    }
    const int normed = norm(x, in_block(names_.attention_norm));
    if (!m_.parallel_residual) {
      x = add(norm_if(attention(normed), names_.attention_out_norm), x);
      if (encoded_ >= 0) x = add(cross_attention(norm(x, in_block(names_.cross_norm))), x);
      return add(norm_if(mlp(norm(x, of_mlp(names_.mlp_norm))), names_.mlp_out_norm), x);
    }
    const bool one_norm = m_.one_norm || names_.attention_norm == names_.mlp_norm;
    const int mlp_input = one_norm ? normed : norm(x, in_block(names_.mlp_norm));
    return add(add(attention(normed), mlp(mlp_input)), x);
  }

  // Of the block; "": none.
  int norm_if(int x, std::string_view name) { return name.empty() ? x : norm(x, in_block(name)); }

  std::string in_block(std::string_view name) const { return prefix_ + std::string(name); }

  // Where a decoder's MLP has another place in the block, since attention comes before it twice.
  std::string of_mlp(std::string_view name) const {
    if (encoded_ < 0 || names_.mlp_layer.empty()) return in_block(name);
    return in_block(names_.decoder_mlp_layer) + std::string(name.substr(names_.mlp_layer.size()));
  }

  int rope(int x, int heads, int kv_heads) { return rope(x, heads, kv_heads, m_.head_dim); }

  int rope(int x, int heads, int kv_heads, int head_dim) {
    if (m_.rotary_dim == 0) return x;
    Attributes a = attributes();
    a.heads = heads;
    a.kv_heads = kv_heads;
    a.head_dim = head_dim;
    a.packing = names_.packing;
    a.rotary_dim = m_.rotary_dim;
    a.rotary_base = m_.rotary_base;
    a.rotary_interleaved = m_.rotary_interleaved;
    a.rotary_factor = m_.rotary_factor;
    a.rotary_low = m_.rotary_low;
    a.rotary_high = m_.rotary_high;
    a.rotary_original = m_.rotary_original;
    a.rotary_yarn = m_.rotary_yarn;
    a.rotary_truncate = m_.rotary_truncate;
    return apply(Op::rope, in_block(names_.attention), {x}, a);
  }

  // One projection of the input to all of queries, keys and values.
  TensorIds packed_qkv(int x) {
    const std::int64_t q = std::int64_t{m_.heads} * m_.head_dim;
    const std::int64_t kv = std::int64_t{m_.kv_heads} * m_.head_dim;
    Matrix matrix{in_block(names_.qkv), m_.hidden, q + 2 * kv, Side::outputs, m_.attention_bias};
    if (names_.packing == Packing::concatenated) matrix.segments = {q, kv, kv};
    matrix.weight_in_out = names_.weight_in_out;
    return {rope(linear(x, matrix), m_.heads, m_.kv_heads)};
  }

  int project(int x, const std::string& path, int heads) {
    return linear(
        x, {path, m_.hidden, std::int64_t{heads} * m_.head_dim, Side::outputs, m_.attention_bias});
  }

  // The rows of queries (0), keys (1) or values (2) where they are published as one.
  std::optional<PublishedPart> part_of_qkv(int which) const {
    if (names_.published_qkv.empty()) return {};
    const std::int64_t groups = names_.published_by_groups ? m_.kv_heads : 1;
    const std::int64_t kv = m_.kv_heads / groups * m_.head_dim;
    const std::int64_t q = m_.heads / groups * m_.head_dim;
    return PublishedPart{in_block(names_.published_qkv), groups, q + 2 * kv,
                         which == 0 ? 0 : q + (which - 1) * kv};
  }

  int project_part(int x, std::string_view name, int which) {
    const int heads = which == 0 ? m_.heads : m_.kv_heads;
    return linear(x, {.path = in_block(name),
                      .in = m_.hidden,
                      .out = std::int64_t{heads} * m_.head_dim,
                      .side = Side::outputs,
                      .bias = m_.attention_bias,
                      .part = part_of_qkv(which)});
  }

  // The norm of queries or keys.
  int head_norm(int x, std::string_view name) {
    if (m_.query_key_norm == QueryKeyNorm::none) return x;
    const std::string path = in_block(name);
    const std::int64_t width = graph_.tensor(x).type.shape[1];
    if (m_.query_key_norm == QueryKeyNorm::heads)
      return apply(Op::head_norm, path, {x, norm_weight(path, m_.head_dim)}, norm_attributes());
    return apply(Op::rms_norm, path, {x, norm_weight(path, width, {0, {width}})},
                 norm_attributes());
  }

  TensorIds separate_qkv(int x) {
    const auto turned = [&](std::string_view name, std::string_view norm_name, int which) {
      const int y = head_norm(project_part(x, name, which), norm_name);
      return rope(y, which == 0 ? m_.heads : m_.kv_heads, m_.kv_heads);
    };
    const int q = turned(names_.q, names_.q_norm, 0);
    const int k = turned(names_.k, names_.k_norm, 1);
    return {q, k, project_part(x, names_.v, 2)};
  }

  // An RMSNorm whose epsilon no config.json gives.
  int latent_norm(int x, std::string_view name) {
    const std::string path = in_block(name);
    Attributes a = attributes();
    a.epsilon = 1e-6;
    return apply(Op::rms_norm, path, {x, norm_weight(path, graph_.tensor(x).type.shape[1])}, a);
  }

  // A part of a published matrix: of each of `groups` groups of outputs `width` from `first` on.
  struct LatentPart {
    std::string_view whole, part;
    std::int64_t groups, group_width, first, width;
    bool bias = false;
  };
  int latent_part(int x, const LatentPart& each) {
    return linear(x,
                  {.path = in_block(names_.attention) + "." + std::string(each.part),
                   .in = graph_.tensor(x).type.shape[1],
                   .out = each.groups * each.width,
                   .bias = each.bias,
                   .part = PublishedPart{in_block(names_.attention) + "." + std::string(each.whole),
                                         each.groups, each.group_width, each.first}});
  }

  // What is not turned of each head, and what is: of each head (queries), or for all (keys).
  int joined_heads(int other, int turned, int heads_of_turned) {
    const int rotated = rope(turned, heads_of_turned, heads_of_turned, m_.rotary_dim);
    Attributes a = attributes();
    a.heads = m_.heads;
    a.kv_heads = heads_of_turned;
    a.head_dim = m_.head_dim;
    a.rotary_dim = m_.rotary_dim;
    return apply(Op::concat_heads, in_block(names_.attention), {other, rotated}, a);
  }

  // DeepSeek-V2, 2024, section 2.1.
  TensorIds latent_qkv(int x) {
    const std::int64_t turned = m_.rotary_dim, other = m_.head_dim - turned;
    int from = x;
    if (m_.q_lora_rank > 0) {
      from = linear(x, {.path = in_block("self_attn.q_a_proj"),
                        .in = m_.hidden,
                        .out = m_.q_lora_rank,
                        .bias = m_.attention_bias});
      from = latent_norm(from, "self_attn.q_a_layernorm");
    }
    const std::string_view q = m_.q_lora_rank > 0 ? "q_b_proj" : "q_proj";
    const int q_other = latent_part(from, {q, "q_nope_proj", m_.heads, m_.head_dim, 0, other});
    const int q_turned =
        latent_part(from, {q, "q_rope_proj", m_.heads, m_.head_dim, other, turned});
    const std::string_view down = "kv_a_proj_with_mqa", up = "kv_b_proj";
    const std::int64_t rank = m_.kv_lora_rank, both = other + m_.v_head_dim;
    const int latent = latent_norm(
        latent_part(x, {down, "kv_a_proj", 1, rank + turned, 0, rank, m_.attention_bias}),
        "self_attn.kv_a_layernorm");
    const int k_turned =
        latent_part(x, {down, "k_rope_proj", 1, rank + turned, rank, turned, m_.attention_bias});
    const int k_other = latent_part(latent, {up, "k_nope_proj", m_.heads, both, 0, other});
    const int v = latent_part(latent, {up, "v_proj", m_.heads, both, other, m_.v_head_dim});
    return {joined_heads(q_other, q_turned, m_.heads), joined_heads(k_other, k_turned, 1), v};
  }

  int attention(int x) {
    TensorIds qkv = m_.kv_lora_rank > 0  ? latent_qkv(x)
                    : names_.qkv.empty() ? separate_qkv(x)
                                         : packed_qkv(x);
    if (m_.relative_buckets > 0) qkv.push_back(relative_bias());
    return attention(qkv, in_block(names_.attention), in_block(names_.attention_out),
                     m_.is_causal() || encoded_ >= 0);
  }

  // The table that all blocks of a stack share.
  int relative_bias() {
    const std::string first = in_stack(names_.block) + ".0.";
    return parameter(first + std::string(names_.relative_bias) + ".weight",
                     {m_.relative_buckets, m_.heads}, Initial::normal, {1, {m_.heads}});
  }

  // Queries of the decoder; keys and values of the encoder's output, all of which they see. Source
  // and target are equally long.
  int cross_attention(int x) {
    const auto path = [&](std::string_view name) {
      return in_block(names_.cross_attention) + std::string(name.substr(names_.attention.size()));
    };
    const int q = project(x, path(names_.q), m_.heads);
    const int k = project(encoded_, path(names_.k), m_.kv_heads);
    const int v = project(encoded_, path(names_.v), m_.kv_heads);
    return attention({q, k, v}, path(names_.attention), path(names_.attention_out), false);
  }

  int attention(const TensorIds& qkv, const std::string& path, const std::string& out_path,
                bool causal) {
    Attributes a = attributes();
    a.heads = m_.heads;
    a.kv_heads = m_.kv_heads;
    a.head_dim = m_.head_dim;
    a.packing = names_.packing;
    a.attention = training_.attention;
    a.causal = causal;
    a.alibi = m_.alibi;
    a.alibi_heads = m_.alibi ? m_.heads : 0;
    a.relative_buckets = qkv.size() > 3 ? m_.relative_buckets : 0;
    a.relative_distance = m_.relative_distance;
    a.scaled_scores = names_.scaled_scores;
    a.score_width = m_.score_width;
    a.score_factor = m_.score_factor;
    a.value_dim = m_.kv_lora_rank > 0 ? m_.v_head_dim : 0;
    a.score_cap = m_.score_cap;
    a.window = causal ? window_ : 0;
    set_dropout(a, path + ".dropout");
    const int y = apply(Op::attention, path, qkv, a);
    const int out = linear(y, {.path = out_path,
                               .in = std::int64_t{m_.heads} * value_dim_of(a),
                               .out = m_.hidden,
                               .side = Side::inputs,
                               .bias = m_.attention_out_bias,
                               .residual = true,
                               .weight_in_out = names_.weight_in_out});
    return dropout(out, out_path);
  }

  // Attributes of all operations of a block's experts.
  Attributes expert_attributes() const {
    Attributes a = attributes();
    const int s = sequence_;
    a.experts = m_.experts;
    a.experts_per_token = m_.experts_per_token;
    a.weights_of_all = m_.expert_weights_of_all;
    a.expert_capacity =
        m_.expert_capacity_factor > 0
            ? expert_capacity(m_.expert_capacity_factor, s, m_.experts_per_token, m_.experts)
            : s;
    const int targets = m_.head == Head::qa ? 2 : s;  // of a sequence: the loss is their mean
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
    const int blocks = m_.layers - static_cast<int>(m_.dense_blocks.size());
    a.balance = m_.router_aux_loss_coef * targets / blocks;
    return a;
  }

  int expert_linear(int x, std::string_view name, std::int64_t in, std::int64_t out,
                    Initial initial) {
    Parameter p;
    p.name = in_block(name) + ".weight";
    p.global_shape = p.padded_shape = p.shape = {m_.experts, out, in};
    p.dtype = dtype_;
    p.cut = {0, {m_.experts}};
    p.of_experts = true;
    p.initial = initial;
    TensorIds inputs = {x, graph_.add_parameter(std::move(p))};
    if (m_.expert_dropless) inputs.push_back(counts_);
    return apply(Op::expert_linear, in_block(name), inputs, expert_attributes());
  }

  int experts(int x) {
    const Attributes a = expert_attributes();
    const int shared =
        m_.shared_ffn > 0 ? gated_mlp(x, in_block(names_.shared_experts), m_.shared_ffn) : -1;
    const int logits = linear(
        x, {.path = in_block(names_.router), .in = m_.hidden, .out = m_.experts, .bias = false});
    TensorIds scored = {logits};
    if (m_.expert_bias) scored.push_back(choice_bias());
    const int route = graph_.add(Op::route, module(in_block(names_.router)), scored, a);
    const int weights = graph_.output(route, 0), slots = graph_.output(route, 1);
    if (m_.expert_dropless) counts_ = graph_.output(route, 3);
    const int rows = apply(Op::dispatch, in_block(names_.mlp), {x, slots}, a);
    const int gate = expert_linear(rows, names_.mlp_gate, m_.hidden, m_.ffn, Initial::normal);
    const int up = expert_linear(rows, names_.mlp_in, m_.hidden, m_.ffn, Initial::normal);
    const int y = apply(Op::swiglu, in_block(names_.mlp), {gate, up}, a);
    const int out = expert_linear(y, names_.mlp_out, m_.ffn, m_.hidden, Initial::residual_normal);
    const int routed = apply(Op::combine, in_block(names_.mlp), {out, weights, slots}, a);
    const int all =
        shared < 0 ? routed : apply(Op::add, in_block(names_.mlp), {routed, shared}, attributes());
    return dropout(all, in_block(names_.mlp));
  }

  // For transformers no parameter but a buffer: it has no gradient.
  int choice_bias() {
    Parameter p;
    p.name = in_block(names_.router) + "." + std::string(names_.router_bias);
    p.global_shape = p.padded_shape = p.shape = {m_.experts};
    p.dtype = dtype_;
    p.initial = Initial::zeros;
    p.decay = p.counted = false;
    return graph_.add_parameter(std::move(p));
  }

  // Not cut: a model with experts has no tensor degree.
  int gated_mlp(int x, const std::string& path, std::int64_t width) {
    const auto project = [&](int from, const char* name, std::int64_t in, std::int64_t out) {
      return linear(from, {.path = path + "." + name,
                           .in = in,
                           .out = out,
                           .bias = m_.biases,
                           .residual = out == m_.hidden});
    };
    const int gate = project(x, "gate_proj", m_.hidden, width);
    const int up = project(x, "up_proj", m_.hidden, width);
    const int y = apply(Op::swiglu, path, {gate, up}, attributes());
    return project(y, "down_proj", width, m_.hidden);
  }

  int activation(int x, const std::string& path) {
    if (m_.squared_relu) return apply(Op::squared_relu, path, {x}, attributes());
    return m_.relu ? apply(Op::relu, path, {x}, attributes()) : gelu(x, path);
  }

  int mlp(int x) {
    if (m_.has_experts(block_)) return experts(x);
    if (m_.experts > 0)
      return dropout(gated_mlp(x, in_block(names_.mlp), m_.dense_ffn), in_block(names_.mlp));
    const auto widen = [&](std::string_view name) {
      Matrix matrix{.path = of_mlp(name),
                    .in = m_.hidden,
                    .out = m_.ffn,
                    .side = Side::outputs,
                    .bias = m_.biases,
                    .weight_in_out = names_.weight_in_out};
      if (!names_.published_gate_in.empty())
        matrix.part = PublishedPart{in_block(names_.published_gate_in), 1, 2 * m_.ffn,
                                    name == names_.mlp_gate ? 0 : m_.ffn};
      return linear(x, matrix);
    };
    const std::string path = of_mlp(names_.mlp);
    int y = 0;
    if (m_.gated_gelu) {
      const int gate = gelu(widen(names_.mlp_gate), path);
      const auto in = names_.gated_mlp_in.empty() ? names_.mlp_in : names_.gated_mlp_in;
      y = apply(Op::multiply, path, {gate, widen(in)}, attributes());
    } else if (m_.gated_ffn) {
      const int gate = widen(names_.mlp_gate);
      y = apply(Op::swiglu, path, {gate, widen(names_.mlp_in)}, attributes());
    } else {
      y = widen(names_.mlp_in);
      y = activation(y, path);
    }
    if (m_.activation_dropout) y = dropout(y, path);
    const int out = linear(y, {.path = of_mlp(names_.mlp_out),
                               .in = m_.ffn,
                               .out = m_.hidden,
                               .side = Side::inputs,
                               .bias = m_.biases,
                               .residual = true,
                               .weight_in_out = names_.weight_in_out});
    return dropout(out, of_mlp(names_.mlp_out));
  }

  // The head sees only `count` positions of each sequence.
  int chosen(int x, int count) {
    graph_.positions = input({training_.micro_batch, count});
    return apply(Op::select_positions, std::string(names_.head), {x, graph_.positions},
                 attributes());
  }

  // What a masked model does before its decoder: only the positions that are asked for.
  int masked_transform(int x) {
    const int given = training_.predicted_positions;
    x = chosen(x, given > 0 ? given : std::max(1, sequence_ * 15 / 100));
    x = linear(x, {std::string(names_.head_dense), m_.hidden, m_.embedding_width(), Side::whole,
                   m_.biases});
    return norm(gelu(x, std::string(names_.head_dense)), std::string(names_.head_norm));
  }

  void language_model_head(int x) {
    unit_ = graph_.add_unit(std::string(names_.head), false);
    if (m_.head == Head::mlm) x = masked_transform(x);
    if (m_.head == Head::label) x = chosen(x, 1);  // the class token
    const std::string path(names_.head_decoder);
    const bool by_width = m_.tied_embeddings && names_.scaled_tied_head;
    x = scaled(x, path, by_width ? 1 / std::sqrt(static_cast<double>(m_.hidden)) : m_.logit_scale);
    const Cut cut{0, {m_.vocabulary}};
    TensorIds inputs = {x, table_};
    if (!m_.tied_embeddings)
      inputs[1] = parameter(path + ".weight", {m_.vocabulary, graph_.tensor(x).type.shape[1]},
                            Initial::normal, cut);
    if (!names_.head_bias.empty() && m_.biases)
      inputs.push_back(
          parameter(std::string(names_.head_bias), {m_.vocabulary}, Initial::zeros, cut));
    Attributes a = attributes();
    a.vocabulary = m_.vocabulary;
    const int logits = capped(apply(Op::linear, path, inputs, a), path, m_.logit_cap);
    graph_.targets = input({graph_.tensor(logits).type.shape[0]});
    graph_.loss = apply(Op::cross_entropy, path, {logits, graph_.targets}, a);
  }

  // Two logits per token: that the answer starts there, that it ends there.
  void question_answering_head(int x) {
    const std::string path = "qa_outputs";
    unit_ = graph_.add_unit(path, false);
    const int logits = linear(x, {path, m_.hidden, 2});
    graph_.targets = input({training_.micro_batch, 2});
    graph_.loss = apply(Op::span_loss, path, {logits, graph_.targets}, attributes());
  }

  const Model& m_;
  const Training& training_;
  const ArchitectureInfo& names_;
  Dtype dtype_;
  Graph graph_;
  std::map<std::string, int> modules_;
  std::map<std::string, int> parameters_;  // their tensors
  int sequence_ = 0;
  std::int64_t rows_ = 0;
  std::string prefix_;  // of the block that is being built: "transformer.h.3."
  int block_ = 0;       // its place in the stack
  int window_ = 0;      // of this block's attention
  int counts_ = -1;     // the rows of this block's experts
  int unit_ = 0;
  int table_ = -1;               // the token table
  std::string_view stack_ = "";  // the decoder, once it is being built
  int encoded_ = -1;             // the encoder's output, which it reads
};

}  // namespace

Graph build_graph(const Model& model, const Training& training) {
  if (model.imported) return lay_out(model, training);
  return Builder(model, training).build();
}

}  // namespace meshwright
