#include "tests/exec/fusion_cases.h"

#include <algorithm>
#include <bit>

#include "models/compiler/passes/back_end/fuse.h"
#include "models/compiler/passes/graph/cleanup.h"
#include "models/compiler/passes/pass.h"
#include "models/core/error.h"
#include "models/program/graph/op_table.h"

namespace meshwright::tests {

namespace {

// Adds operations on rows of one width to a graph, and makes one fused operation of them all.
class Body {
 public:
  explicit Body(const RowSizes& sizes) : sizes_(sizes) {
    graph_.add_unit("body", false);
    graph_.add_module("body", 0);
    attributes_.micro_batch = sizes.batch;
    attributes_.sequence_length = sizes.length;
  }

  std::int64_t rows() const { return std::int64_t{sizes_.batch} * sizes_.length; }
  std::int64_t width() const { return sizes_.width; }
  Attributes& attributes() { return attributes_; }  // attributes of what is added next

  // Makes the rows a rank's share of longer sequences, which do not end where the share does.
  void share_rows() {
    attributes_.sequence_parallel = true;
    attributes_.sequence_length = 2 * sizes_.length + 1;
  }

  int input(Shape shape) { return graph_.add_tensor({shape, sizes_.stored}, Role::activation); }
  int x() { return input({rows(), width()}); }
  int row() { return graph_.add_tensor({{width()}, sizes_.stored}, Role::parameter); }
  int table(int length) {
    return graph_.add_tensor({{length, width()}, sizes_.stored}, Role::parameter);
  }
  int statistics(int columns) {
    return graph_.add_tensor({{rows(), columns}, Dtype::f32}, Role::activation);
  }
  int gradient(Shape shape) {
    return graph_.add_tensor({shape, Dtype::f32}, Role::parameter_gradient);
  }

  // Adds an operation. Returns its first output, or -1 if it has gradients of parameters only.
  int add(Op op, TensorIds inputs, TensorIds accumulated = {}) {
    const int node = graph_.add_gradient(op, 0, inputs, accumulated, attributes_);
    const TensorIds& outputs = graph_.nodes[static_cast<std::size_t>(node)].outputs;
    return outputs.size() > accumulated.size() ? outputs[0] : -1;
  }
  std::int64_t columns(int id) const { return graph_.tensor(id).type.shape[1]; }
  int second_output() const { return graph_.nodes.back().outputs[1]; }

  void keep(int id) { kept_.push_back(id); }

  // Returns the fusion, or nothing if it has too many operands. Values that nobody reads are
  // outputs, and so are those that are kept.
  std::optional<Fusion> fusion() const {
    std::vector<int> uses = count_uses(graph_);
    for (int& use : uses) use += use == 0 ? 1 : 0;
    for (int id : kept_) ++uses[static_cast<std::size_t>(id)];
    std::vector<const Node*> members;
    for (const Node& node : graph_.nodes) members.push_back(&node);
    std::optional<Fused> made = fuse(graph_, members, uses);
    if (!made) return std::nullopt;
    const RowRule& first = info(made->fusion.steps[0].op).rows;
    if (first.product) MESHWRIGHT_CHECK(lead_with_product(made->fusion), "the case is an epilogue");
    made->fusion.block_rows = 4;
    return std::move(made->fusion);
  }

 private:
  RowSizes sizes_;
  Graph graph_;
  Attributes attributes_;
  std::vector<int> kept_;
};

using Build = void (*)(Body& body);
struct Single {
  const char* name;
  Build build;
};

void add_dropout(Body& b, Op op, double share) {
  b.attributes().dropout = share;
  b.attributes().dropout_key = 0x123456789ABCDEF;
  b.add(op, {b.x()});
}

const Single singles[] = {
    {"add_position",
     [](Body& b) {
       b.add(Op::add_position, {b.x(), b.table(64)});
     }},
    {"add_position, offset, own rows",
     [](Body& b) {
       b.attributes().position_offset = 2;
       b.share_rows();
       b.add(Op::add_position, {b.x(), b.table(64)});
     }},
    {"add_position, context",
     [](Body& b) {
       b.attributes().context_degree = 2;
       b.add(Op::add_position, {b.x(), b.table(64)});
     }},
    {"add_row",
     [](Body& b) {
       b.add(Op::add_row, {b.x(), b.table(2)});
     }},
    {"layer_norm",
     [](Body& b) {
       b.add(Op::layer_norm, {b.x(), b.row(), b.row()});
     }},
    {"layer_norm without bias",
     [](Body& b) {
       b.add(Op::layer_norm, {b.x(), b.row()});
     }},
    {"rms_norm",
     [](Body& b) {
       b.add(Op::rms_norm, {b.x(), b.row()});
     }},
    {"rms_norm by 1 + weight",
     [](Body& b) {
       b.attributes().one_plus_weight = true;
       b.add(Op::rms_norm, {b.x(), b.row()});
     }},
    {"add_bias",
     [](Body& b) {
       b.add(Op::add_bias, {b.x(), b.row()});
     }},
    {"gelu, tanh form",
     [](Body& b) {
       b.attributes().gelu_tanh = true;
       b.add(Op::gelu, {b.x()});
     }},
    {"add, twice the same",
     [](Body& b) {
       const int x = b.x();
       b.add(Op::add, {x, x});
     }},
    {"scale",
     [](Body& b) {
       b.attributes().factor = -0.3;
       b.add(Op::scale, {b.x()});
     }},
    {"dropout", [](Body& b) { add_dropout(b, Op::dropout, 0.1); }},
    {"dropout, own rows",
     [](Body& b) {
       b.share_rows();
       add_dropout(b, Op::dropout, 0.3);
     }},
    {"dropout, own columns",
     [](Body& b) {
       b.attributes().hidden_share = true;
       add_dropout(b, Op::dropout, 0.5);
     }},
    {"add_row_grad",
     [](Body& b) {
       b.add(Op::add_row_grad, {b.x()}, {b.gradient({2, b.width()})});
     }},
    {"layer_norm_grad",
     [](Body& b) {
       b.add(Op::layer_norm_grad, {b.x(), b.row(), b.statistics(2), b.x()},
             {b.gradient({b.width()}), b.gradient({b.width()})});
     }},
    {"layer_norm_grad without bias",
     [](Body& b) {
       b.add(Op::layer_norm_grad, {b.x(), b.row(), b.statistics(2), b.x()},
             {b.gradient({b.width()})});
     }},
    {"rms_norm_grad",
     [](Body& b) {
       b.add(Op::rms_norm_grad, {b.x(), b.row(), b.statistics(1), b.x()},
             {b.gradient({b.width()})});
     }},
    {"layer_norm_grad by 1 + weight",
     [](Body& b) {
       b.attributes().one_plus_weight = true;
       b.add(Op::layer_norm_grad, {b.x(), b.row(), b.statistics(2), b.x()},
             {b.gradient({b.width()}), b.gradient({b.width()})});
     }},
    {"bias_grad", [](Body& b) { b.add(Op::bias_grad, {b.x()}, {b.gradient({b.width()})}); }},
    {"gelu_grad, tanh form",
     [](Body& b) {
       b.attributes().gelu_tanh = true;
       b.add(Op::gelu_grad, {b.x(), b.x()});
     }},
    {"dropout_grad", [](Body& b) { add_dropout(b, Op::dropout_grad, 0.1); }},
};

const Single products[] = {
    {"linear + add_bias + gelu",
     [](Body& b) {
       const int y = b.add(Op::linear, {b.input({b.rows(), 5}), b.input({b.width(), 5})});
       b.add(Op::gelu, {b.add(Op::add_bias, {y, b.row()})});
     }},
    {"linear on a sum + relu",
     [](Body& b) {
       const int y = b.add(Op::linear, {b.input({b.rows(), 5}), b.input({b.width(), 5})});
       const int sum = b.add(Op::add, {b.x(), y});
       b.keep(sum);
       b.add(Op::relu, {sum});
     }},
    {"linear_grad_input + gelu_grad + bias_grad",
     [](Body& b) {
       const int dy =
           b.add(Op::linear_grad_input, {b.input({b.rows(), 5}), b.input({5, b.width()})});
       const int dx = b.add(Op::gelu_grad, {b.x(), dy});
       b.keep(dx);
       b.add(Op::bias_grad, {dx}, {b.gradient({b.width()})});
     }},
};

// Returns whether all inputs are activations, which are combined element by element.
bool works_on_elements(const OpInfo& row) {
  const int arity = std::countr_one(row.rows.inputs);
  return !row.elements[0].empty() && row.rows.inputs >> arity == 0 &&
         row.elements[0].find("$" + std::to_string(arity)) == std::string_view::npos;
}

std::vector<FusionCase> built(std::span<const Single> list, const RowSizes& sizes) {
  std::vector<FusionCase> cases;
  for (const Single& single : list) {
    Body body(sizes);
    single.build(body);
    cases.push_back({single.name, body.fusion().value()});
  }
  return cases;
}

// Makes a fusion of random operations, on rows made before or on new ones.
class RandomBody {
 public:
  RandomBody(const RowSizes& sizes, std::uint64_t seed) : body_(sizes), random_(seed) {
    made_ = {body_.x(), body_.x()};
  }

  std::optional<Fusion> fusion() {
    const int steps = 2 + below(5);
    for (int i = 0; i < steps; ++i) add_step();
    for (std::size_t i = 2; i < made_.size(); ++i)
      if (below(4) == 0) body_.keep(made_[i]);
    return body_.fusion();
  }

 private:
  int below(int count) { return static_cast<int>(random_() % static_cast<std::uint64_t>(count)); }
  int any() { return made_[static_cast<std::size_t>(below(static_cast<int>(made_.size())))]; }
  // Returns some rows made before. Chains are longer if the last rows are preferred.
  int some() { return below(2) == 0 ? made_.back() : any(); }
  int gradient() { return body_.gradient({body_.width()}); }

  void add_step() {
    body_.attributes().gelu_tanh = below(2) == 0;
    body_.attributes().dropout = 0.25;
    body_.attributes().dropout_key = random_();
    body_.attributes().factor = 0.7;
    static constexpr Op unary[] = {Op::gelu,    Op::relu,         Op::tanh,
                                   Op::dropout, Op::dropout_grad, Op::scale};
    static constexpr Op binary[] = {Op::add,       Op::swiglu,    Op::gelu_grad,
                                    Op::relu_grad, Op::tanh_grad, Op::multiply};
    switch (below(8)) {
      case 0:
        return made(body_.add(unary[below(6)], {some()}));
      case 1:
        return made(body_.add(binary[below(6)], {some(), any()}));
      case 2:
        return made(body_.add(Op::add_bias, {some(), body_.row()}));
      case 3:
        return made(body_.add(Op::add_position, {some(), body_.table(64)}));
      case 4:
        body_.add(Op::bias_grad, {some()}, {gradient()});
        return;
      case 5:
        return made(body_.add(Op::swiglu_grad, {some(), any(), any()}));
      case 6:
        return add_norm();
      default:
        return add_norm_grad();
    }
  }

  void add_norm() {
    const int x = some(), weight = body_.row();
    const int y = below(2) == 0 ? body_.add(Op::rms_norm, {x, weight})
                                : body_.add(Op::layer_norm, {x, weight, body_.row()});
    norm_ = {x, weight, body_.second_output()};
    made(y);
  }

  // Adds the gradient of a norm of the body or of an earlier norm.
  void add_norm_grad() {
    const int dy = some();
    const bool inside = norm_.size() > 0 && below(2) == 0;
    const int columns = inside ? columns_of_norm() : 1 + below(2);
    const int saved = inside ? norm_[2] : body_.statistics(columns);
    const int x = inside ? norm_[0] : any(), weight = inside ? norm_[1] : body_.row();
    if (columns == 1)
      made(body_.add(Op::rms_norm_grad, {x, weight, saved, dy}, {gradient()}));
    else
      made(body_.add(Op::layer_norm_grad, {x, weight, saved, dy}, {gradient(), gradient()}));
  }

  int columns_of_norm() const { return static_cast<int>(body_.columns(norm_[2])); }
  void made(int id) { made_.push_back(id); }

  Body body_;
  std::mt19937_64 random_;
  std::vector<int> made_;
  TensorIds norm_;  // x, weight and saved of the last norm
};

}  // namespace

std::vector<FusionCase> single_operations(const RowSizes& sizes) {
  std::vector<FusionCase> cases = built(singles, sizes);
  for (const OpInfo& row : op_table()) {
    if (!works_on_elements(row)) continue;
    Body body(sizes);
    TensorIds inputs;
    for (int i = 0; (row.rows.inputs >> i & 1U) != 0; ++i) inputs.push_back(body.x());
    body.add(row.op, inputs);
    cases.push_back({std::string(row.name), body.fusion().value()});
  }
  return cases;
}

std::vector<FusionCase> epilogues(const RowSizes& sizes) { return built(products, sizes); }

FusionCase residual_and_norm(const RowSizes& sizes) {
  Body body(sizes);
  const int sum = body.add(Op::add, {body.x(), body.x()});
  body.keep(sum);
  body.add(Op::layer_norm, {sum, body.row(), body.row()});
  return {"add + layer_norm", body.fusion().value()};
}

FusionCase random_body(const RowSizes& sizes, std::uint64_t seed) {
  // Draws again if there are too many operands.
  for (;; seed += 1000)
    if (std::optional<Fusion> fusion = RandomBody(sizes, seed).fusion())
      return {"body " + std::to_string(seed) + ": " + name_of(*fusion), *std::move(fusion)};
}

std::vector<FusionCase> fusions_of(const Model& model, const Training& training) {
  Plan plan;
  plan.training = training;
  plan.training.compiler = CompilerLevel::full;
  plan.training.global_batch = training.micro_batch;
  std::vector<FusionCase> cases;
  for (const Node& node : run_passes(build_graph(model, plan.training), plan).nodes) {
    if (node.op != Op::fused) continue;
    const Fusion& fusion = *node.attributes.fusion;
    if (fusion.loop == Fusion::Loop::blocks ||
        (fusion.loop == Fusion::Loop::product_first && fusion.steps.size() > 1))
      cases.push_back({model.name + ": " + name_of(fusion), fusion});
  }
  return cases;
}

std::vector<OpTensor> random_operands(const Fusion& fusion, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<OpTensor> operands;
  for (int id = 0; id < fusion.first_internal(); ++id) {
    OpTensor& tensor = operands.emplace_back(fusion.operands[static_cast<std::size_t>(id)]);
    const bool given = id < fusion.inputs || fusion.is_sum(id);
    for (std::int64_t i = 0; i < tensor.elements(); ++i)
      tensor.set(i, !given ? std::numeric_limits<double>::quiet_NaN()
                    : tensor.type.dtype == Dtype::i32
                        ? static_cast<double>(random() % 16)
                        : static_cast<double>(random() >> 11U) * 0x1p-52 - 1);
  }
  return operands;
}

OpContext some_place() {
  OpContext context;
  context.tensor_rank = context.context_rank = 1;
  context.tensor_size = 2;
  context.first_sequence = (std::int64_t{1} << 33) + 5;
  return context;
}

void run_fusion(Backend& backend, const Fusion& fusion, std::vector<OpTensor>& operands,
                bool overwrites) {
  Attributes attributes;
  attributes.fusion = std::make_shared<const Fusion>(fusion);
  const auto inputs = static_cast<std::size_t>(fusion.inputs);
  std::uint32_t overwritten = 0;
  for (std::size_t o = 0; overwrites && inputs + o < operands.size(); ++o) {
    if (!can_overwrite(Op::fused, attributes, o)) continue;
    overwritten |= std::uint32_t{1} << o;
    OpTensor& sum = operands[inputs + o];
    for (std::int64_t i = 0; i < sum.elements(); ++i)
      sum.set(i, std::numeric_limits<double>::quiet_NaN());
  }
  std::vector<TensorType> types;
  std::vector<const void*> in;
  std::vector<void*> out;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    types.push_back(operands[i].type);
    if (i < inputs)
      in.push_back(operands[i].storage.data());
    else
      out.push_back(operands[i].storage.data());
  }
  const std::span<const TensorType> all(types);
  const OpCall call{Op::fused, attributes, all.first(inputs), all.subspan(inputs), overwritten};
  std::vector<double> scratch(static_cast<std::size_t>(backend.workspace_bytes(call) / 8 + 8));
  OpContext context = some_place();
  context.workspace = scratch.data();
  backend.run(call, {in, out}, context);
}

double tolerance_of(const Fusion& fusion) {
  for (const TensorType& type : fusion.operands)
    if (type.dtype == Dtype::f16 || type.dtype == Dtype::bf16) return 1e-2;
  return 1e-5;
}

}  // namespace meshwright::tests
