#include "tests/agree/random_graph.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <stdexcept>

#include "models/program/graph/experts.h"
#include "models/program/graph/op_table.h"

namespace meshwright::tests {

namespace {

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : draw_(seed) {}

  RandomGraph make() {
    draw_sizes();
    int x = embeddings();
    for (int block = 0, blocks = draw_.between(1, 3); block < blocks; ++block)
      x = add_block(x, block);
    if (draw_.one_in(2)) {
      begin_unit("norm", false);
      x = norm(x, "norm");
    }
    head(x);
    draw_recomputation();
    return {std::move(graph_), std::move(plan_)};
  }

 private:
  void draw_sizes() {
    batch_ = draw_.between(1, 3);
    length_ = draw_.between(4, 32);
    in_ring_ = draw_.one_in(4);
    if (in_ring_) length_ += length_ % 2;  // a rank has two halves
    if (!in_ring_ && draw_.one_in(8)) patches_ = draw_.between(2, 5);
    if (patches_ > 0) length_ = patches_ * patches_ + 1;
    hidden_ = draw_.of({4, 6, 8, 11, 16, 24, 33, 64});
    vocabulary_ = draw_.of({5, 16, 40});
    graph_.precision =
        draw_.one_in(8) ? draw_.of({Precision::fp16, Precision::bf16}) : Precision::fp32;
    graph_.compiler = draw_.of({CompilerLevel::fused, CompilerLevel::full});
    graph_.micro_batch = batch_;
    graph_.sequence_length = length_;
    graph_.vocabulary = vocabulary_;
    graph_.held = draw_.of({Held::whole, Held::rows});
    Training& training = plan_.training;
    training.global_batch = training.micro_batch = batch_;
    training.sequence_length = length_;
    training.precision = graph_.precision;
    training.compiler = graph_.compiler;
    training.fuse_gradient_accumulation = !draw_.one_in(4);
    plan_.parallelism.context = in_ring_ ? 2 : 1;
    if (draw_.one_in(2)) plan_.parallelism.context_exchange = ContextExchange::all_gather;
    if (draw_.one_in(4)) plan_.parallelism.schedule = ScheduleKind::zero_bubble;
    plan_.parallelism.tensor = 2;  // whose group operations are drawn too
    plan_.parallelism.overlap_tensor = true;
  }

  void draw_recomputation() {
    Training& training = plan_.training;
    training.recompute = draw_.of({Recompute::none, Recompute::selective, Recompute::full,
                                   Recompute::each, Recompute::contiguous, Recompute::group});
    training.recompute_group = draw_.between(1, 2);
    training.recompute_fraction = draw_.of({1.0, 1.0, 0.5});
    if (draw_.one_in(4)) {
      training.recompute = Recompute::none;
      for (const Module& module : graph_.modules)
        if (graph_.units[static_cast<std::size_t>(module.unit)].is_block && draw_.one_in(2))
          training.recompute_modules.push_back(module.path);
    }
  }

  std::int64_t rows() const { return std::int64_t{batch_} * length_; }
  std::int64_t width(int x) const { return graph_.tensor(x).type.shape[1]; }

  Attributes attributes() const {
    Attributes a;
    a.micro_batch = batch_;
    a.sequence_length = length_;
    return a;
  }

  void begin_unit(const std::string& path, bool is_block) {
    unit_ = graph_.add_unit(path, is_block);
    modules_.clear();
    spare_.clear();
    part_ = path;
  }
  // Makes the operations that follow belong to this part of the unit.
  void begin_part(const std::string& name) {
    part_ = graph_.units[static_cast<std::size_t>(unit_)].path + "." + name;
  }
  int module() {
    const auto [found, is_new] = modules_.try_emplace(part_, 0);
    if (is_new) found->second = graph_.add_module(part_, unit_);
    return found->second;
  }

  int add_node(Op op, TensorIds inputs, const Attributes& a) {
    if (draw_.one_in(14)) spare_.push_back(graph_.output(graph_.add(op, module(), inputs, a)));
    return graph_.add(op, module(), inputs, a);
  }
  int apply(Op op, TensorIds inputs, const Attributes& a) {
    return graph_.output(add_node(op, inputs, a));
  }
  int apply(Op op, TensorIds inputs) { return apply(op, inputs, attributes()); }
  int apply_in_documents(Op op, TensorIds inputs, Attributes a) {
    a.documents = graph_.documents >= 0;
    if (a.documents) inputs.push_back(graph_.documents);
    return apply(op, inputs, a);
  }

  int input(Shape shape) { return graph_.add_tensor({shape, Dtype::i32}, Role::input); }

  int parameter(Shape shape, Initial initial = Initial::normal) {
    Parameter p;
    p.name.append("p").append(std::to_string(graph_.parameters.size()));
    p.global_shape = p.padded_shape = p.shape = shape;
    p.dtype = storage_of(graph_.precision);
    p.initial = initial;
    return graph_.add_parameter(std::move(p));
  }

  int linear(int x, std::int64_t out, bool bias) {
    Attributes a = attributes();
    a.weight_in_out = draw_.one_in(2);
    const Shape shape = a.weight_in_out ? Shape{width(x), out} : Shape{out, width(x)};
    TensorIds inputs{x, parameter(shape)};
    if (!bias) return apply(Op::linear, inputs, a);
    const int row = parameter({out});
    if (draw_.one_in(4)) return apply(Op::add_bias, {wander(apply(Op::linear, inputs, a)), row});
    inputs.push_back(row);
    return apply(Op::linear, inputs, a);
  }
  int linear(int x, std::int64_t out) { return linear(x, out, draw_.one_in(2)); }

  int dropout(int x) {
    Attributes a = attributes();
    a.dropout = draw_.of({0.0, 0.1, 0.5});
    a.dropout_key = static_cast<std::uint64_t>(draw_.below(1000));
    a.sequence_parallel = draw_.one_in(4);
    a.hidden_share = draw_.one_in(4);
    return apply(Op::dropout, {x}, a);
  }

  // Sometimes adds operations of a group. On one rank they do nothing or change only the order.
  int wander(int x) {
    if (!draw_.one_in(4)) return x;
    Attributes a = attributes();
    switch (draw_.below(9)) {
      case 0:
        return apply(Op::tensor_copy, {x});
      case 1:
        return apply(Op::tensor_reduce, {x});
      case 2:
        a.gradient_is_whole = draw_.one_in(2);
        x = apply(Op::sequence_gather, {x}, a);
        return draw_.one_in(2) ? apply(Op::sequence_slice, {x}, a) : x;
      case 3:
        return apply(Op::sequence_scatter, {x});
      case 4:
        return apply(Op::sequence_slice, {x});
      case 5:
        x = apply(Op::columns_to_parts, {x}, a);
        return draw_.one_in(4) ? x : apply(Op::parts_to_columns, {x}, a);
      case 6:
        return apply(Op::parts_to_columns, {x});
      case 7:
        return reorder(x);
      default:
        return dropout(x);
    }
  }

  // Reorders the tokens of a context group to or from the order of their sequences, and sometimes
  // back.
  int reorder(int x) {
    if (graph_.tensor(x).type.shape[0] != rows()) return x;
    Attributes a = attributes();
    if (length_ % 4 == 0) a.context_degree = 2, a.sequence_length /= 2;
    for (int times = draw_.below(3); times > 0; --times) x = apply(Op::context_exchange, {x}, a);
    const bool to_sequence = draw_.one_in(2);
    x = apply(to_sequence ? Op::parts_to_sequence : Op::sequence_to_parts, {x}, a);
    return draw_.one_in(2)
               ? x
               : apply(to_sequence ? Op::sequence_to_parts : Op::parts_to_sequence, {x}, a);
  }

  int norm(int x, const std::string& part) {
    begin_part(part);
    Attributes a = attributes();
    a.epsilon = 1e-3;
    a.rms_norm = draw_.one_in(2);
    a.one_plus_weight = draw_.one_in(4);
    TensorIds inputs{x, parameter({width(x)}, Initial::ones)};
    const bool bias = !a.rms_norm && draw_.one_in(2);
    if (bias) inputs.push_back(parameter({width(x)}));
    if (!draw_.one_in(4)) return apply(a.rms_norm ? Op::rms_norm : Op::layer_norm, inputs, a);
    inputs.push_back(apply(Op::stats_gather, {apply(Op::norm_stats, {x}, a)}, a));
    return apply(Op::norm_parts, inputs, a);
  }

  int activation(int x) {
    Attributes a = attributes();
    a.gelu_tanh = draw_.one_in(2);
    const Op op = draw_.of({Op::gelu, Op::gelu, Op::relu, Op::squared_relu, Op::tanh});
    x = apply(op, {x}, a);
    return op == Op::relu && draw_.one_in(2) ? apply(op, {x}, a) : x;
  }

  // Begins the graph with an image of `patches_` by `patches_` patches.
  int image() {
    Attributes a = attributes();
    a.patch_size = 2;
    a.channels = draw_.of({1, 3});
    a.made = storage_of(graph_.precision);
    const int side = a.patch_size * patches_;
    graph_.tokens = input({batch_, a.channels * side * side});
    table_ = parameter({vocabulary_, hidden_});
    const int x = linear(apply(Op::image_patches, {graph_.tokens}, a), hidden_);
    return apply(Op::prepend_row, {x, parameter({hidden_})}, a);
  }

  int embeddings() {
    begin_unit("embedding", false);
    if (patches_ > 0) return image();
    graph_.tokens = input({rows()});
    if (draw_.one_in(4)) graph_.documents = input({rows()});
    Attributes a = attributes();
    a.vocabulary = vocabulary_;
    a.vocabulary_parallel = draw_.one_in(3);
    const int padded = vocabulary_ + draw_.of({0, 3});
    table_ = parameter({padded, hidden_});
    int x = apply(Op::embedding, {graph_.tokens, table_}, a);
    if (a.vocabulary_parallel) x = apply(Op::tensor_reduce, {x}, a);
    a = attributes();
    a.sequence_parallel = draw_.one_in(3) && graph_.documents < 0;
    a.position_offset = draw_.of({0, 2});
    if (draw_.one_in(2))
      x = apply_in_documents(Op::add_position, {x, parameter({length_ + 3, hidden_})}, a);
    if (draw_.one_in(3)) x = apply(Op::add_row, {x, parameter({2, hidden_})}, a);
    if (draw_.one_in(3)) x = norm(x, "norm");
    return draw_.one_in(3) ? dropout(x) : x;
  }

  int add_block(int x, int index) {
    begin_unit("blocks." + std::to_string(index), true);
    for (int branch = 0, branches = draw_.between(1, 2); branch < branches; ++branch) {
      const bool norm_first = draw_.one_in(2);
      int y = norm_first ? norm(x, "norm") : x;
      switch (draw_.below(5)) {
        case 0:
        case 1:
          y = attention(y);
          break;
        case 2:
        case 3:
          y = mlp(y);
          break;
        default:
          y = experts(y);
      }
      y = wander(draw_.one_in(2) ? dropout(y) : y);
      begin_part("residual");
      x = draw_.one_in(2) ? apply(Op::add, {x, y}) : apply(Op::add, {y, x});
      x = use_spare(x);
      if (!norm_first) x = norm(x, "norm");
      leave_dead(x);
    }
    return x;
  }

  // Sometimes uses the output of a duplicated operation, which is dead otherwise.
  int use_spare(int x) {
    for (const int spare : spare_)
      if (graph_.tensor(spare).type == graph_.tensor(x).type && draw_.one_in(2)) {
        spare_.clear();
        return apply(Op::add, {x, spare});
      }
    return x;
  }
  void leave_dead(int x) {
    if (draw_.one_in(6)) activation(linear(x, draw_.between(1, 5)));
  }

  int project(int x, std::int64_t out) { return wander(linear(wander(x), out)); }

  int head_norm(int x, const Attributes& of_heads) {
    if (!draw_.one_in(3)) return x;
    Attributes a = attributes();
    a.epsilon = 1e-3;
    a.head_dim = of_heads.head_dim;
    if (draw_.one_in(4)) return apply(Op::head_norm, {x}, a);
    a.one_plus_weight = draw_.one_in(4);
    return apply(Op::head_norm, {x, parameter({of_heads.head_dim}, Initial::ones)}, a);
  }

  int rope(int x, Attributes a) {
    if (draw_.one_in(2)) return x;
    a.rotary_factor = draw_.of({1.0, 1.0, 8.0});
    a.rotary_original = draw_.of({0, 40});
    a.rotary_yarn = draw_.one_in(3);
    a.rotary_dim = 2 * draw_.between(0, a.head_dim / 2);
    a.rotary_interleaved = draw_.one_in(2);
    if (draw_.one_in(5)) {
      a.temperature = 0.4;
      a.temperature_floor = draw_.between(1, 6);
      a.rotary_dim = a.head_dim;
    }
    return apply_in_documents(Op::rope, {x}, a);
  }

  int attention(int x) {
    begin_part("attention");
    Attributes a = attributes();
    a.packing = draw_.of({Packing::separate, Packing::concatenated, Packing::per_head});
    a.heads = draw_.of({1, 2, 4});
    a.kv_heads = a.packing == Packing::per_head || draw_.one_in(2) ? a.heads : 1;
    a.head_dim = draw_.of({2, 4, 6, 8});
    const std::int64_t q = std::int64_t{a.heads} * a.head_dim;
    const std::int64_t kv = std::int64_t{a.kv_heads} * a.head_dim;
    TensorIds qkv;
    if (a.packing == Packing::separate && !in_ring_ && draw_.one_in(3)) {
      a.kv_heads = a.heads;
      a.value_dim = draw_.between(1, a.head_dim);
      a.score_factor = draw_.of({1.0, 1.5});
      qkv = {latent_heads(x, a), latent_heads(x, a),
             project(x, std::int64_t{a.heads} * a.value_dim)};
    } else if (a.packing == Packing::separate) {
      Attributes of_keys = a;
      of_keys.heads = a.kv_heads;
      qkv = {rope(head_norm(project(x, q), a), a),
             rope(head_norm(project(x, kv), of_keys), of_keys), project(x, kv)};
    } else {
      qkv = {rope(project(x, q + 2 * kv), a)};
    }
    a.attention =
        draw_.of({AttentionKernel::unfused, AttentionKernel::flash, AttentionKernel::flash2});
    if (in_ring_ && a.attention == AttentionKernel::unfused) a.attention = AttentionKernel::flash;
    a.causal = draw_.one_in(2) || (in_ring_ && graph_.documents >= 0);
    a.window = a.causal && draw_.one_in(3) ? draw_.between(1, 12) : 0;
    a.chunk = a.causal && draw_.one_in(3) ? draw_.between(1, 12) : 0;
    a.alibi = draw_.one_in(4);
    a.alibi_heads = a.alibi ? a.heads : 0;
    a.scaled_scores = !draw_.one_in(4);
    a.score_width = draw_.one_in(4) ? draw_.between(4, 16) : 0;
    a.score_cap = draw_.one_in(3) ? draw_.of({2.0, 8.0, 30.0}) : 0;
    if (!in_ring_ && a.packing == Packing::separate && a.value_dim == 0 && draw_.one_in(2)) {
      a.relative_buckets = draw_.between(4, 12);
      a.relative_distance = a.relative_buckets / 2 + draw_.between(1, 20);
      qkv.push_back(relative_table(a));
    } else if (!in_ring_ && a.packing == Packing::separate && a.value_dim == 0 &&
               a.attention != AttentionKernel::unfused && draw_.one_in(2)) {
      a.sinks = true;
      qkv.push_back(parameter({a.heads}));
    }
    if (draw_.one_in(4)) a.dropout = 0.2, a.dropout_key = 17;
    return project(apply_in_documents(Op::attention, qkv, a), hidden_);
  }

  int latent_heads(int x, Attributes a) {
    a.rotary_dim = a.head_dim / 2;
    a.kv_heads = draw_.one_in(2) ? 1 : a.heads;
    Attributes turned = a;
    turned.head_dim = a.rotary_dim;
    const int other = project(x, std::int64_t{a.heads} * (a.head_dim - a.rotary_dim));
    const int r = rope(project(x, std::int64_t{a.kv_heads} * a.rotary_dim), turned);
    return apply(Op::concat_heads, {other, r}, a);
  }

  // Returns a table of relative positions. Blocks may share one, as in T5.
  int relative_table(const Attributes& a) {
    const Shape shape{a.relative_buckets, a.heads};
    if (relative_table_ < 0 || graph_.tensor(relative_table_).type.shape != shape)
      relative_table_ = parameter(shape);
    return relative_table_;
  }

  int mlp(int x) {
    begin_part("mlp");
    const int inner = draw_.of({4, 8, 21, 48});
    int y = project(x, inner);
    if (draw_.one_in(3))
      y = gated(y, project(x, inner), attributes());
    else
      y = activation(y);
    return project(y, hidden_);
  }

  int gated(int gate, int up, Attributes a) {
    a.swiglu_limit = draw_.of({0.5, 7.0});
    return apply(draw_.of({Op::multiply, Op::swiglu, Op::swiglu, Op::clamped_swiglu}), {gate, up},
                 a);
  }

  int exchange(int x, const Attributes& a) {
    for (int times = draw_.below(3); times > 0; --times) x = apply(Op::expert_exchange, {x}, a);
    return x;
  }

  int experts(int x) {
    begin_part("experts");
    Attributes a = attributes();
    a.experts = draw_.of({2, 4});
    a.experts_per_token = draw_.between(1, 2);
    a.weights_of_all = draw_.one_in(2);
    a.expert_capacity =
        draw_.one_in(2) ? length_ : expert_capacity(1, length_, a.experts_per_token, a.experts);
    a.balance = draw_.of({0.0, 0.5});
    a.sigmoid_scores = a.balance == 0 && draw_.one_in(2);
    a.expert_weight_scale = draw_.of({1.0, 2.5});
    if (draw_.one_in(3)) {
      a.expert_rows = std::int64_t{batch_} * length_ * a.experts_per_token;
      a.expert_parts = draw_.of({1, 2});
    }
    a.expert_groups = a.experts_per_token <= a.experts / 2 ? draw_.of({1, 2}) : 1;
    a.groups_by_two = draw_.one_in(2);
    const int own = draw_.one_in(3) ? a.experts / 2 : a.experts, inner = draw_.of({4, 10});
    TensorIds scored{linear(x, a.experts, false)};
    if (draw_.one_in(3)) scored.push_back(parameter({a.experts}));
    const int route = add_node(Op::route, scored, a);
    const int weights = graph_.output(route, 0), slots = graph_.output(route, 1);
    const int counts = is_dropless(a) ? graph_.output(route, 3) : -1;
    const bool weighed = a.experts_per_token == 1 && draw_.one_in(2);
    const int read = weighed ? apply(Op::scale_rows, {x, weights}, a) : x;
    const int taken = exchange(apply(Op::dispatch, {read, slots}, a), a);
    const auto product = [&](int in, int out) {
      TensorIds inputs = {in, parameter({own, out, width(in)})};
      if (counts >= 0) inputs.push_back(counts);
      const int y = apply(Op::expert_linear, inputs, a);
      if (!draw_.one_in(3)) return y;
      TensorIds biased = {y, parameter({own, out})};
      if (counts >= 0) biased.push_back(counts);
      return apply(Op::add_expert_bias, biased, a);
    };
    int y = product(taken, inner);
    y = draw_.one_in(2) ? gated(y, product(taken, inner), a) : activation(y);
    y = exchange(product(y, hidden_), a);
    y = weighed ? apply(Op::combine, {y, slots}, a) : apply(Op::combine, {y, weights, slots}, a);
    return draw_.one_in(3) ? apply(Op::gate_rows, {y, linear(x, 1, false)}) : y;
  }

  void head(int x) {
    begin_unit("head", false);
    const int kind = draw_.below(4);
    if (kind == 0) return find_answer(x);
    if (kind == 1) {
      graph_.positions = input({batch_, draw_.between(1, length_)});
      x = apply(Op::select_positions, {x, graph_.positions});
      x = norm(activation(linear(x, hidden_)), "norm");
    }
    predict_words(x);
  }

  int capped(int x) {
    const double cap = draw_.of({3.0, 30.0});
    Attributes a = attributes();
    a.factor = 1 / cap;
    x = apply(Op::tanh, {apply(Op::scale, {x}, a)});
    a.factor = cap;
    return apply(Op::scale, {x}, a);
  }

  void find_answer(int x) {
    graph_.targets = input({batch_, 2});
    const int logits = wander(linear(x, 2));
    graph_.loss =
        graph_.output(graph_.add(Op::span_loss, module(), {logits, graph_.targets}, attributes()));
  }

  void predict_words(int x) {
    const std::int64_t padded = graph_.tensor(table_).type.shape[0];
    if (draw_.one_in(4)) {
      Attributes scaled = attributes();
      scaled.factor = 0.25;
      x = apply(Op::scale, {x}, scaled);
    }
    TensorIds inputs{wander(x), draw_.one_in(2) ? table_ : parameter({padded, hidden_})};
    if (draw_.one_in(3)) inputs.push_back(parameter({padded}));
    Attributes a = attributes();
    a.vocabulary = vocabulary_;
    int logits = graph_.output(graph_.add(Op::linear, module(), inputs, a));
    if (draw_.one_in(4)) logits = wander(logits);
    if (draw_.one_in(3)) logits = capped(logits);
    graph_.targets = input({graph_.tensor(logits).type.shape[0]});
    a.vocabulary_parallel = draw_.one_in(3);
    const TensorIds operands{logits, graph_.targets};
    int loss = -1;
    if (a.vocabulary_parallel) {
      const int stats = graph_.output(graph_.add(Op::cross_entropy_stats, module(), operands, a));
      const int all = graph_.output(graph_.add(Op::stats_gather, module(), {stats}, a));
      loss = graph_.add(Op::cross_entropy_combine, module(), {all}, a);
    } else {
      loss = graph_.add(Op::cross_entropy, module(), operands, a);
    }
    graph_.loss = graph_.output(loss);
  }

  Draw draw_;
  Graph graph_;
  Plan plan_;
  int batch_ = 1, length_ = 1, hidden_ = 1, vocabulary_ = 1;
  bool in_ring_ = false;
  int patches_ = 0;  // of a side of an image; 0: words
  int table_ = -1, relative_table_ = -1;
  int unit_ = 0;
  std::string part_;
  std::map<std::string, int> modules_;
  std::vector<int> spare_;  // outputs of operations that were added a second time
};

}  // namespace

RandomGraph random_graph(std::uint64_t seed) { return Generator(seed).make(); }

}  // namespace meshwright::tests
