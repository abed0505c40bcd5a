// Tests the passes of the training compiler, each by its effect on a small graph.
#include <algorithm>
#include <map>
#include <string>

#include "models/architectures/model.h"
#include "models/compiler/lower/lower.h"
#include "models/compiler/passes/back_end/fuse_rows.h"
#include "models/compiler/passes/dataflow/order_operations.h"
#include "models/compiler/passes/dataflow/rematerialize_rows.h"
#include "models/compiler/passes/dataflow/reuse_in_place.h"
#include "models/compiler/passes/graph/backward.h"
#include "models/compiler/passes/graph/cleanup.h"
#include "models/compiler/passes/graph/common_subexpressions.h"
#include "models/compiler/passes/graph/fuse_loss.h"
#include "models/compiler/passes/graph/merge_products.h"
#include "models/compiler/passes/graph/simplify.h"
#include "models/compiler/passes/pass.h"
#include "models/core/error.h"
#include "models/program/graph/fusion.h"
#include "tests/catch.h"
#include "tests/message_of.h"
#include "tests/models/plans.h"

using namespace meshwright::tests;

namespace {

Plan plan_at(const Model& model, CompilerLevel level) {
  Plan plan = small_plan(model, {.micro_batches = 1});
  plan.training.compiler = level;
  return plan;
}

// Returns the graph of forward and gradients, before any optimizing pass of the compiler.
Graph differentiated(const char* family) {
  const Model model = small_model(family);
  const Plan plan = plan_at(model, CompilerLevel::fused);
  return backward(build_graph(model, plan.training), plan);
}

Graph after(Graph (*pass)(Graph, const Plan&), Graph graph) {
  graph = pass(std::move(graph), Plan{});
  verify(graph, "the pass");
  return graph;
}

int count(const Graph& graph, Op op) {
  return static_cast<int>(std::count_if(graph.nodes.begin(), graph.nodes.end(),
                                        [&](const Node& node) { return node.op == op; }));
}

// Returns the names of the fused operations in a graph, each once.
std::vector<std::string> bodies(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes)
    if (node.op == Op::fused) names.push_back(name_of(*node.attributes.fusion));
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// A graph with one module and one tensor x[4,8], to which a test adds nodes.
struct Bench {
  Graph graph;
  int x = 0;
  Attributes a;
  Bench() {
    graph.add_module("m", graph.add_unit("u", true));
    Parameter p;
    p.name = "x";
    p.global_shape = p.padded_shape = p.shape = {4, 8};
    x = graph.add_parameter(p);
  }
  int apply(Op op, TensorIds inputs, Phase phase = Phase::forward) {
    return graph.output(graph.add(op, 0, inputs, a, phase));
  }
};

std::int64_t bytes_of(const Program& program, MemoryClass cls) {
  return program.memory.class_bytes[static_cast<std::size_t>(cls)];
}

}  // namespace

TEST_CASE("each level has its list of passes; optional ones can be left out by name",
          "[models][compiler]") {
  Training training;
  training.compiler = CompilerLevel::fused;
  for (const Pass& pass : passes_of(training)) CHECK_FALSE(pass.optional);
  training.compiler = CompilerLevel::full;
  const std::size_t all = passes_of(training).size();
  training.passes_off = {"fuse_rows"};
  CHECK(passes_of(training).size() == all - 1);
  check_passes_off(training);
  training.passes_off = {"fuse_row"};
  CHECK(message_of([&] { check_passes_off(training); }) ==
        "/training/passes_off/0: 'fuse_row' is no pass that can be left out; did you mean "
        "'fuse_rows'?");
  training.passes_off = {"backward"};
  CHECK_THROWS_AS(check_passes_off(training), InputError);
}

TEST_CASE("the loss of an eager framework is one kernel where that is asked for",
          "[models][compiler]") {
  Plan plan;
  plan.training.micro_batch = 1;
  plan.training.sequence_length = 32;
  plan.training.compiler = CompilerLevel::none;
  const Model model = load_model("gpt2", ".");
  const auto made = [&] { return run_passes(build_graph(model, plan.training), plan); };
  CHECK(count(made(), Op::log_softmax) == 1);
  plan.training.passes_off = {"eager_loss"};
  const Graph whole = made();
  CHECK(count(whole, Op::log_softmax) == 0);
  CHECK(count(whole, Op::cross_entropy) == 1);
  CHECK(count(whole, Op::tanh) == 12);  // activation functions are split in both cases
}

TEST_CASE("at full the loss is in pieces where it is not fused with the head",
          "[models][compiler]") {
  Plan plan;
  plan.training.micro_batch = 1;
  plan.training.sequence_length = 32;
  plan.training.compiler = CompilerLevel::full;
  const Model model = load_model("gpt2", ".");
  const auto made = [&] { return run_passes(build_graph(model, plan.training), plan); };
  CHECK(count(made(), Op::log_softmax) == 0);
  plan.training.passes_off = {"fuse_loss"};
  CHECK(count(made(), Op::log_softmax) == 1);
  plan.training.passes_off = {"fuse_loss", "eager_loss"};
  CHECK(count(made(), Op::log_softmax) == 0);
}

TEST_CASE("torch.compile compiles the loss without the head, torchtitan computes both in parts",
          "[models][compiler]") {
  Training training;
  training.compiler = CompilerLevel::full;
  const auto runs = [&](std::string_view name) {
    return std::ranges::count(passes_of(training), name, &Pass::name) > 0;
  };
  for (const Framework framework :
       {Framework::transformers, Framework::accelerate, Framework::pytorch}) {
    training.framework = framework;
    CHECK_FALSE(runs("fuse_loss"));
    CHECK_FALSE(runs("eager_loss"));
  }
  training.passes_off = {"fuse_loss"};  // the job says that its loss is not compiled
  CHECK(runs("eager_loss"));
  training.passes_off.clear();
  training.framework = Framework::torchtitan;
  CHECK(runs("fuse_loss"));
  CHECK_FALSE(runs("eager_loss"));
}

TEST_CASE("what is computed twice is computed once, dead code is dropped", "[models][compiler]") {
  Bench b;
  const int once = b.apply(Op::gelu, {b.x}), twice = b.apply(Op::gelu, {b.x});
  b.apply(Op::relu, {b.x});  // no operation reads the result
  b.graph.loss = b.apply(Op::add, {once, twice});
  Graph shared = after(share_common_subexpressions, b.graph);
  CHECK(count(shared, Op::gelu) == 1);
  CHECK(count(shared, Op::relu) == 1);
  const Graph alive = after(remove_dead_code, shared);
  CHECK(count(alive, Op::relu) == 0);
  CHECK(alive.nodes.size() == 2);
  // Tensors that no node mentions are removed too. x, gelu and the sum are left.
  CHECK(alive.tensors.size() == 3);
}

TEST_CASE("a recomputed node is not merged with the node that it repeats", "[models][compiler]") {
  Bench b;
  const int first = b.apply(Op::gelu, {b.x});
  const int again = b.apply(Op::gelu, {b.x}, Phase::recompute);
  b.graph.loss = b.apply(Op::add, {first, again}, Phase::backward);
  CHECK(count(after(share_common_subexpressions, b.graph), Op::gelu) == 2);
}

TEST_CASE("two layout changes that undo each other are removed", "[models][compiler]") {
  Bench b;
  b.graph.tensor_degree = b.a.tensor_degree = 2;
  const int parts = b.apply(Op::columns_to_parts, {b.x});
  const int columns = b.apply(Op::parts_to_columns, {parts});
  b.a.heads = b.a.kv_heads = 1;
  b.a.head_dim = b.a.rotary_dim = 8;
  const int turned = b.apply(Op::rope, {columns});
  const int back = b.apply(Op::rope_grad, {turned});
  b.graph.loss = b.apply(Op::relu, {back});
  const Graph simple = after(simplify, b.graph);
  REQUIRE(simple.nodes.size() == 1);
  CHECK(simple.nodes[0].inputs[0] == simple.parameters[0].tensor);
}

TEST_CASE("chains of a block become one operation each", "[models][compiler]") {
  const std::vector<std::string> names = bodies(after(fuse_rows, differentiated("gpt")));
  CHECK(contains(names, "linear + gelu"));
  CHECK(contains(names, "linear"));  // its output begins as the residual stream
  CHECK(contains(names, "linear_grad_input + gelu_grad + bias_grad"));
  CHECK(contains(names, "layer_norm_grad + add"));
}

TEST_CASE("queries, keys and values are one product, and so are gate and up",
          "[models][compiler]") {
  const Graph before = differentiated("llama");
  const Graph merged = after(merge_products, before);
  // The model has 4 blocks with the matmuls q, k, v, out, gate, up and down, and a head. q, k and v
  // become one matmul, and so do gate and up.
  CHECK(count(before, Op::linear) == 4 * 7 + 1);
  CHECK(count(merged, Op::linear) == 4 * 2 + 1);
  CHECK(count(merged, Op::linear_grad_weight) == 4 * 2 + 1);
  // The sum of three gradients of one input takes two additions, that of two gradients one.
  CHECK(count(before, Op::add) - count(merged, Op::add) == 4 * (2 + 1));
  const std::vector<std::string> names = bodies(merged);
  CHECK(contains(names, "linear + linear + linear"));
  CHECK(contains(names, "linear_grad_input + linear_grad_input"));
}

TEST_CASE("the full logits never exist", "[models][compiler]") {
  const Graph before = differentiated("gpt");
  const Graph fused = after(fuse_loss, before);
  const std::int64_t vocabulary = before.vocabulary;
  const auto has_logits = [&](const Graph& graph) {
    return std::any_of(graph.tensors.begin(), graph.tensors.end(), [&](const Tensor& tensor) {
      return tensor.role == Role::activation && tensor.type.shape.rank == 2 &&
             tensor.type.shape[1] == vocabulary;
    });
  };
  CHECK(has_logits(before));
  CHECK_FALSE(has_logits(fused));
  CHECK(count(fused, Op::cross_entropy) == 0);
  CHECK(fused.loss >= 0);
}

TEST_CASE("capped logits never exist either", "[models][compiler]") {
  Model model = small_model("llama");
  model.logit_cap = 30;
  const Plan plan = plan_at(model, CompilerLevel::fused);
  const Graph fused = after(fuse_loss, backward(build_graph(model, plan.training), plan));
  CHECK(count(fused, Op::tanh) + count(fused, Op::tanh_grad) + count(fused, Op::scale) == 0);
  const auto found = std::find_if(fused.nodes.begin(), fused.nodes.end(), [](const Node& node) {
    return node.attributes.fusion != nullptr;
  });
  REQUIRE(found != fused.nodes.end());
  const Fusion& fusion = *found->attributes.fusion;
  CHECK(name_of(fusion) ==
        "linear + scale + tanh + scale + cross_entropy + cross_entropy_grad + scale + tanh_grad + "
        "scale + linear_grad_input + linear_grad_weight");
  // Only two tensors are as wide as the logits: the output of tanh, which its gradient reads, and
  // one that all later steps share.
  int wide = 0;
  for (std::size_t id = 0; id < fusion.operands.size(); ++id)
    wide += fusion.is_internal(static_cast<int>(id)) &&
                    fusion.operands[id].shape[-1] == model.vocabulary
                ? 1
                : 0;
  CHECK(wide == 2);
}

TEST_CASE("the loss of very many rows is cut into thousands of blocks, not more",
          "[models][compiler]") {
  const Model model = small_model("gpt");
  Plan plan = plan_at(model, CompilerLevel::full);
  const auto blocks = [&](int sequences) {
    plan.training.micro_batch = sequences;
    plan.training.global_batch = sequences;
    const Graph graph = fuse_loss(backward(build_graph(model, plan.training), plan), plan);
    for (const Node& node : graph.nodes)
      if (const Fusion* fusion = node.attributes.fusion.get();
          fusion != nullptr && fusion->loop == Fusion::Loop::long_blocks)
        return (fusion->rows + fusion->block_rows - 1) / fusion->block_rows;
    return std::int64_t{0};
  };
  CHECK(blocks(1) == 1);
  CHECK(blocks(100'000'000) > 1000);
  CHECK(blocks(100'000'000) <= 4096);
}

TEST_CASE("norms and activations are made again, not kept", "[models][compiler]") {
  const Model model = small_model("gpt");
  Plan plan = plan_at(model, CompilerLevel::full);
  plan.training.passes_off = {"rematerialize_rows"};
  const Program keeps = lower_small(model, plan).front();
  plan.training.passes_off.clear();
  const Program repeats = lower_small(model, plan).front();
  CHECK(bytes_of(repeats, MemoryClass::activations) < bytes_of(keeps, MemoryClass::activations));
}

TEST_CASE("a good order needs less memory than a bad one", "[models][compiler]") {
  Bench b;
  // There are two long tensors. Each is reduced directly after it is made, or both are made first.
  const int one = b.apply(Op::gelu, {b.x}), two = b.apply(Op::relu, {b.x});
  const int of_one = b.apply(Op::norm_stats, {one}), of_two = b.apply(Op::norm_stats, {two});
  b.graph.loss = b.apply(Op::add, {of_one, of_two});
  const Graph ordered = after(order_operations, b.graph);
  const int nodes = static_cast<int>(b.graph.nodes.size());
  const std::int64_t large = 4 * 8 * 4, small = 2 * 4 * 4;
  CHECK(peak_of_order(b.graph, 0, nodes) == 2 * large + small);
  CHECK(peak_of_order(ordered, 0, nodes) == large + 2 * small);
}

TEST_CASE("additions to one gradient keep their order", "[models][compiler]") {
  Bench b;
  const int gradient = b.graph.add_tensor({Shape{8}, Dtype::f32}, Role::parameter_gradient);
  const auto made = [&](Op op, int x) { return b.apply(op, {x}, Phase::backward); };
  const int one = made(Op::gelu, b.x), two = made(Op::relu, one);
  const int three = made(Op::tanh, two);
  // If the first tensor were added before the last one is made, only two would be live at once.
  for (const int each : {three, one})
    b.graph.add_gradient(Op::bias_grad, 0, {each}, {gradient}, b.a);
  const Graph ordered = after(order_operations, b.graph);
  std::vector<Op> added;
  for (const Node& node : ordered.nodes)
    if (node.op == Op::bias_grad) {
      const int producer = ordered.tensor(node.inputs[0]).producer;
      added.push_back(ordered.nodes[static_cast<std::size_t>(producer)].op);
    }
  CHECK(added == std::vector{Op::tanh, Op::gelu});
}

TEST_CASE("a sum takes the place of an operand that nobody needs any more", "[models][compiler]") {
  Bench b;
  const int one = b.apply(Op::gelu, {b.x}), two = b.apply(Op::relu, {b.x});
  const int sum = b.apply(Op::add, {one, two});
  b.graph.loss = b.apply(Op::norm_stats, {sum});
  const Graph placed = after(reuse_in_place, b.graph);
  CHECK(placed.tensor(sum).alias_of == one);
  // A parameter is never overwritten.
  CHECK(placed.tensor(one).alias_of == -1);
}

TEST_CASE("the passes of each level come in their order", "[models][compiler]") {
  const auto names_at = [](CompilerLevel level) {
    Training training;
    training.compiler = level;
    std::string names;
    for (const Pass& pass : passes_of(training)) names += std::string(pass.name) + " ";
    return names;
  };
  const std::string splits =
      "pad_vocabulary split_context split_tensors exchange_heads split_experts add_adapters ";
  CHECK(names_at(CompilerLevel::fused) ==
        splits + "backward quantize recompute ring_attention overlap_tensor widen_weights ");
  CHECK(names_at(CompilerLevel::none) ==
        splits +
            "eager_operations eager_loss backward quantize recompute ring_attention "
            "overlap_tensor widen_weights ");
  CHECK(names_at(CompilerLevel::full) ==
        splits +
            "backward simplify common_subexpressions dead_code fuse_loss quantize recompute "
            "rematerialize_rows ring_attention merge_products fuse_rows order_operations "
            "overlap_tensor widen_weights reuse_in_place ");
  // Without its fused loss, the training compiler uses the framework's loss.
  Training training;
  training.compiler = CompilerLevel::full;
  training.passes_off = {"fuse_loss"};
  const std::vector<Pass> passes = passes_of(training);
  CHECK(std::ranges::count(passes, "eager_loss", &Pass::name) == 1);
  CHECK(std::ranges::count(passes, "fuse_loss", &Pass::name) == 0);
  // Passes that only make a step faster or smaller can be left out.
  std::string optional;
  for (const Pass& pass : training_passes())
    if (pass.optional) optional += std::string(pass.name) + " ";
  CHECK(optional ==
        "eager_loss simplify common_subexpressions dead_code fuse_loss rematerialize_rows "
        "merge_products fuse_rows order_operations reuse_in_place ");
}
