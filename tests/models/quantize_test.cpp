// Tests the effect of precisions with 8 and 4 bits on a graph and its Programs.
#include "models/compiler/passes/graph/quantize.h"

#include <algorithm>
#include <set>
#include <vector>

#include "models/compiler/passes/pass.h"
#include "models/program/graph/op_table.h"
#include "models/program/graph/quantized.h"
#include "tests/catch.h"
#include "tests/models/plans.h"
#include "tests/one_in.h"

using namespace meshwright::tests;

namespace {

constexpr DeviceFacts any_layout{}, transposing{.transposes_8_bits = true};

Plan in_fp8(Plan plan) {
  plan.training.precision = Precision::fp8;
  return plan;
}

Graph graph_of(const Model& model, const Plan& plan, const DeviceFacts& device = any_layout) {
  return run_passes(build_graph(model, plan.training), plan, device);
}

bool is_expert_product(const Node& node) {
  return node.op == Op::expert_linear || node.op == Op::expert_linear_grad_input ||
         node.op == Op::expert_linear_grad_weight;
}

bool is_product(Op op) {
  return op == Op::linear || op == Op::linear_grad_input || op == Op::linear_grad_weight;
}

Dtype first_type(const Graph& graph, const Node& node) {
  return graph.tensor(node.inputs[0]).type.dtype;
}

int count_ops(const Graph& graph, Op op, Phase phase) {
  return static_cast<int>(std::ranges::count_if(
      graph.nodes, [&](const Node& node) { return node.op == op && node.phase == phase; }));
}

int count_ops(const Body& body, Op op) {
  return static_cast<int>(
      std::ranges::count_if(body.instructions, [&](const Instruction& instruction) {
        return instruction.kind == InstructionKind::compute && instruction.op == op;
      }));
}

// Returns a model whose sizes are multiples of all blocks with one scale.
Model wide_model() {
  Model model = small_model("llama");
  model.hidden = 256;
  model.ffn = 384;
  model.head_dim = 64;
  return model;
}
Plan wide_plan(const Model& model, SmallDegrees degrees = {}) {
  Plan plan = in_fp8(small_plan(model, degrees));
  plan.training.micro_batch = 16;  // 128 rows
  plan.training.global_batch *= 8;
  return plan;
}

std::int64_t slot_bytes(const Program& program) { return program.memory.slots[0].stride; }

}  // namespace

TEST_CASE("in fp8 the linear layers of blocks multiply 8 bits, what is outside does not",
          "[models][passes]") {
  const Model model = small_model("llama");
  const Graph graph = graph_of(model, in_fp8(small_plan(model, {})));
  int of_blocks = 0, others = 0;
  for (const Node& node : graph.nodes) {
    if (!is_product(node.op)) continue;
    const bool in_block = graph.units[graph.unit_of(node)].is_block;
    CHECK(is_8_bit(first_type(graph, node)) == in_block);
    // Gradients are in e5m2, which has a larger range and less precision.
    if (in_block && node.op == Op::linear_grad_input) CHECK(first_type(graph, node) == Dtype::e5m2);
    if (in_block && node.op != Op::linear_grad_weight)
      CHECK(graph.tensor(node.outputs[0]).type.dtype == Dtype::bf16);
    ++(in_block ? of_blocks : others);
  }
  CHECK(of_blocks == 4 * 7 * 3);  // queries, keys, values, output, gate, up and down of 4 blocks
  CHECK(others == 3);             // the head and its two gradients
  // Each block rounds 7 weights, and the inputs of queries, keys and values, of the output layer,
  // of gate and up, and of down. In the backward phase it rounds the gradients of the 7 outputs.
  CHECK(count_ops(graph, Op::quantize, Phase::forward) == 4 * (7 + 4));
  CHECK(count_ops(graph, Op::quantize, Phase::backward) == 4 * 7);
  CHECK(count_ops(graph, Op::amax, Phase::forward) == 4 * (7 + 4));

  const Graph in_bf16 = graph_of(model, [&] {
    Plan plan = small_plan(model, {});
    plan.training.precision = Precision::bf16;
    return plan;
  }());
  CHECK(count_ops(in_bf16, Op::quantize, Phase::forward) == 0);
}

namespace {

// Returns, for each block in the order of the model, whether it has matmuls of 8 bits.
std::vector<bool> blocks_in_8_bits(const Graph& graph) {
  std::vector<bool> found;
  for (int u = 0; u < static_cast<int>(graph.units.size()); ++u)
    if (graph.units[u].is_block)
      found.push_back(std::ranges::any_of(graph.nodes, [&](const Node& node) {
        return is_product(node.op) && graph.unit_of(node) == u && is_8_bit(first_type(graph, node));
      }));
  return found;
}

}  // namespace

TEST_CASE("the first and the last blocks stay in bf16 where the plan says so", "[models][passes]") {
  const auto blocks = [](const Model& model, int first, int last) {
    Plan plan = in_fp8(small_plan(model, {}));
    plan.training.first_layers_in_bf16 = first;
    plan.training.last_layers_in_bf16 = last;
    return blocks_in_8_bits(graph_of(model, plan));
  };
  using Each = std::vector<bool>;
  const Model model = small_model("llama");
  CHECK(blocks(model, 0, 0) == Each{true, true, true, true});
  CHECK(blocks(model, 1, 0) == Each{false, true, true, true});
  CHECK(blocks(model, 0, 2) == Each{true, true, false, false});
  CHECK(blocks(model, 1, 2) == Each{false, true, false, false});
  // The numbers of layers apply to the encoder and to the decoder separately.
  const Model two = small_model("seq2seq");
  const Each all = blocks(two, 0, 0), some = blocks(two, 1, 1);
  REQUIRE(std::ssize(all) == 2 * two.layers);
  for (std::size_t block = 0; block < all.size(); ++block) {
    const int of_stack = static_cast<int>(block) % two.layers;
    CHECK(some[block] == (of_stack > 0 && of_stack < two.layers - 1));
    CHECK(all[block]);
  }
  // If all blocks stay in bf16, the graph is the one of bf16.
  Plan plan = in_fp8(small_plan(model, {}));
  plan.training.first_layers_in_bf16 = 1;
  plan.training.last_layers_in_bf16 = 3;
  const Graph graph = graph_of(model, plan);
  plan.training.precision = Precision::bf16;
  const Graph in_bf16 = graph_of(model, plan);
  REQUIRE(graph.nodes.size() == in_bf16.nodes.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    CHECK(graph.nodes[i].op == in_bf16.nodes[i].op);
}

TEST_CASE("a router stays in bf16, and a layer with a size that is no multiple of 16",
          "[models][passes]") {
  const Model experts = small_model("mixtral");
  const Graph routed = graph_of(experts, in_fp8(small_plan(experts, {})));
  for (const Node& node : routed.nodes)
    if (node.op == Op::linear)
      for (const Node& reader : routed.nodes)
        if (reader.op == Op::route && reader.inputs[0] == node.outputs[0])
          CHECK_FALSE(is_8_bit(first_type(routed, node)));
  Model odd = small_model("gpt");
  odd.ffn = 72;
  const Graph graph = graph_of(odd, in_fp8(small_plan(odd, {})));
  // Queries, keys and values are one layer, and no layer of the MLP is in 8 bits.
  CHECK(count_ops(graph, Op::quantize, Phase::forward) == 4 * (2 + 2));
}

TEST_CASE("experts multiply 8 bits where the plan says so and their slots divide",
          "[models][passes]") {
  const Model model = small_model("mixtral");
  for (const DeviceFacts& device : {any_layout, transposing})
    for (const bool asked : {false, true})
      for (const int sequences : {2, 4}) {  // 8 or 16 slots of each expert
        Plan plan = in_fp8(small_plan(model, {}));
        plan.training.fp8_experts = asked;
        plan.training.micro_batch = sequences;
        const Graph graph = graph_of(model, plan, device);
        int in_8_bits = 0, others = 0;
        for (const Node& node : graph.nodes) {
          if (!is_expert_product(node)) continue;
          const bool rounded = is_8_bit(first_type(graph, node));
          (rounded ? in_8_bits : others) += 1;
          if (!rounded) continue;
          // A device with this flag needs both factors contiguous along the summed dimension.
          const bool of_weights = node.op == Op::expert_linear_grad_weight;
          CHECK(node.attributes.factors_transposed == (of_weights && device.transposes_8_bits));
          if (device.transposes_8_bits && !of_weights)
            CHECK(node.attributes.weight_in_out == (node.op == Op::expert_linear_grad_input));
          std::vector<TensorType> inputs, outputs;
          for (int id : node.inputs) inputs.push_back(graph.tensor(id).type);
          for (int id : node.outputs) outputs.push_back(graph.tensor(id).type);
          std::vector<Kernel> kernels;
          append_kernels({node.op, node.attributes, inputs, outputs}, CompilerLevel::fused,
                         kernels);
          CHECK(kernels[0].quantized);
          CHECK(kernels[0].m * kernels[0].n * kernels[0].k == 16 * 32 * 64);
        }
        // Each of 4 blocks has gate, up and down, and two gradients of each of them.
        CHECK(in_8_bits == (asked && sequences == 4 ? 4 * 9 : 0));
        CHECK(in_8_bits + others == 4 * 9);
        if (asked) verify(lower_small(model, plan, device));
      }
}

TEST_CASE("scales are of blocks as the recipe says", "[models][passes]") {
  const Model model = wide_model();
  struct Expected {
    Fp8Recipe recipe;
    Shape of_input, of_weight;  // scales of the first linear layer: 128 rows of 256, 256 x 256
  };
  for (const Expected& expected : {Expected{Fp8Recipe::delayed, {1, 1}, {1, 1}},
                                   Expected{Fp8Recipe::tensorwise, {1, 1}, {1, 1}},
                                   Expected{Fp8Recipe::blockwise, {128, 2}, {2, 2}},
                                   Expected{Fp8Recipe::mxfp8, {128, 8}, {256, 8}}}) {
    Plan plan = wide_plan(model);
    plan.training.fp8_recipe = expected.recipe;
    const Graph graph = graph_of(model, plan);
    const auto first = std::ranges::find_if(graph.nodes, [&](const Node& node) {
      return node.op == Op::linear && is_8_bit(first_type(graph, node));
    });
    REQUIRE(first != graph.nodes.end());
    CHECK(graph.tensor(first->inputs[2]).type.shape == expected.of_input);
    CHECK(graph.tensor(first->inputs[3]).type.shape == expected.of_weight);
    for (const Node& node : graph.nodes) {  // with blocks, factors are transposed and in e4m3
      if (node.op != Op::linear_grad_weight || !is_8_bit(first_type(graph, node))) continue;
      const bool has_blocks = expected.of_input[0] > 1;
      CHECK(node.attributes.factors_transposed == has_blocks);
      CHECK(graph.tensor(node.inputs[1]).type.dtype == (has_blocks ? Dtype::e4m3 : Dtype::e5m2));
    }
  }
}

TEST_CASE("muon steps the matrices that are rounded before products read them", "[models]") {
  const CompilerLevel level =
      GENERATE(CompilerLevel::none, CompilerLevel::fused, CompilerLevel::full);
  const Model model = small_model(GENERATE("llama", "mixtral"));
  const auto stepped = [&](Precision precision, int tensor) {
    Plan plan = small_plan(model, {.tensor = tensor});
    plan.training.precision = precision;
    plan.training.compiler = level;
    plan.training.optimizer = OptimizerKind::muon;
    plan.training.fp8_experts = quantizes(precision);
    std::int64_t elements = 0;
    const std::vector<Program> stages = lower_small(model, plan);
    for (const Bucket& bucket : stages[0].buckets)
      if (bucket.matrices) elements += bucket.elements;
    return elements;
  };
  const int tensor = model.experts > 0 ? 1 : GENERATE(1, 2);
  const std::int64_t in_bf16 = stepped(Precision::bf16, tensor);
  CHECK(in_bf16 > 0);
  CHECK(stepped(Precision::fp8, tensor) == in_bf16);
}

TEST_CASE("every legal plan of a small model lowers in fp8 to sound Programs",
          "[models][lower][release]") {
  int turn = 0;
  for (const char* family : {"gpt", "llama"}) {
    const Model model = small_model(family);
    for (Plan plan : small_plans(model)) {
      for (const DeviceFacts& device : {any_layout, transposing}) {
        for (const CompilerLevel level : {CompilerLevel::fused, CompilerLevel::full}) {
          if (!is_tried(++turn, 5)) continue;
          if (level == CompilerLevel::full && plan.parallelism.pipeline == 4) continue;
          plan.training.compiler = level;
          INFO(describe(plan) << " " << family);
          const std::vector<Program> stages = lower_small(model, in_fp8(plan), device);
          CHECK(broken_rule(stages).empty());
          for (const Program& program : stages) verify(program.memory);
        }
      }
    }
  }
}

TEST_CASE("weights are rounded once a step; gathered ones whenever they are there",
          "[models][lower]") {
  const Model model = small_model("llama");
  for (const int zero : {0, 1, 2, 3}) {
    const Plan plan = in_fp8(small_plan(model, {1, 1, 2, 4, zero}));
    const Program program = lower_small(model, plan)[0];
    const bool stays = zero < 3;
    INFO("ZeRO " << zero);
    CHECK(count_ops(program.bodies[0], Op::quantize) == (stays ? 4 * 7 : 0));
    CHECK(count_ops(program.bodies[1], Op::quantize) == 4 * 4 + (stays ? 0 : 4 * 7));
    CHECK(count_ops(program.bodies[2], Op::quantize) == 4 * 7 + (stays ? 0 : 4 * 7));
  }
}

// The weights of queries, keys, values, output, gate, up and down of each of 4 blocks are gathered
// in 8 bits. Norms, the embedding and the head are not.
TEST_CASE("with fp8_gathers shards are rounded once a step, and their bits are gathered",
          "[models][lower]") {
  const Model model = small_model("llama");
  Plan plan = in_fp8(small_plan(model, {1, 1, 2, 4, 3}));
  plan.parallelism.reduce_bucket_bytes = 0;  // a block has one bucket, or two with fp8_gathers
  const Program before = lower_small(model, plan)[0];
  plan.training.fp8_gathers = true;
  const std::vector<Program> stages = lower_small(model, plan);
  CHECK(broken_rule(stages).empty());
  const Program& program = stages[0];
  verify(program.memory);
  CHECK(count_ops(program.bodies[0], Op::amax) == 4);  // for one of the two buckets of each block
  CHECK(count_ops(program.bodies[0], Op::quantize) == 4);
  CHECK(count_ops(program.bodies[1], Op::quantize) == 4 * 4);
  CHECK(count_ops(program.bodies[2], Op::quantize) == 4 * 7);
  const auto gathered = [](const Body& body, bool in_8_bits) {
    std::int64_t elements = 0;
    for (const Instruction& instruction : body.instructions)
      if (instruction.kind == InstructionKind::all_gather &&
          is_8_bit(instruction.outputs[0].type.dtype) == in_8_bits)
        elements += instruction.outputs[0].type.shape.elements();
    return elements;
  };
  const Graph graph = graph_of(model, plan);
  std::int64_t of_linear_layers = 0;
  for (const Tensor& tensor : graph.tensors)
    if (tensor.role == Role::gathered_bits) of_linear_layers += tensor.type.shape.elements();
  for (const int body : {1, 2}) {
    CHECK(gathered(program.bodies[body], true) == of_linear_layers);
    CHECK(gathered(program.bodies[body], false) ==
          gathered(before.bodies[body], false) - of_linear_layers);
  }
  const auto buffers = [](const Program& of, std::string_view name) {
    std::int64_t bytes = 0;
    for (const Buffer& buffer : of.memory.buffers) bytes += buffer.name == name ? buffer.bytes : 0;
    return bytes;
  };
  CHECK(buffers(program, "weights_in_8_bits") == of_linear_layers / 2);  // a rank's half
  CHECK(3 * buffers(program, "gathered_weights") < 2 * buffers(before, "gathered_weights"));
}

TEST_CASE("with fp8_gathers weights that something else reads are gathered as they are",
          "[models][lower]") {
  const Model model = small_model("llama");
  Plan plan = in_fp8(small_plan(model, {1, 1, 2, 4, 3}));
  plan.training.fp8_gathers = true;
  plan.training.first_layers_in_bf16 = 1;
  const auto rounded = [&] {
    return std::ranges::count(graph_of(model, plan).tensors, Role::gathered_bits, &Tensor::role);
  };
  CHECK(rounded() == 3 * 7);
  // Weights that every rank keeps whole are not gathered.
  plan.parallelism.persistence_threshold = model.hidden * model.hidden + 1;
  CHECK(rounded() < 3 * 7);
  plan.parallelism.persistence_threshold = 1'000'000;
  CHECK(rounded() == 0);
}

TEST_CASE("inputs of linear layers are kept in 8 bits", "[models][lower]") {
  const Model model = wide_model();
  Plan plan = wide_plan(model);
  const std::int64_t rounded = slot_bytes(lower_small(model, plan, transposing)[0]);
  CHECK(slot_bytes(lower_small(model, plan)[0]) == rounded);  // only one of two layouts is saved
  plan.training.precision = Precision::bf16;
  const std::int64_t whole = slot_bytes(lower_small(model, plan)[0]);
  // In each of 4 blocks, the inputs of queries, keys and values (256 columns), of gate and up (256)
  // and of down (384) take half of the bytes. Attention's gradient also reads the input of the
  // output layer in bf16, so its 8-bit copy is additional. Each input has a scale at an address of
  // its own.
  const std::int64_t rows = 128, scales = 4 * arena_alignment;
  CHECK(whole - rounded == 4 * (rows * (256 + 256 + 384 - 256) - scales));
}

TEST_CASE("ranks with a share of the rows gather rounded ones, with one scale", "[models][lower]") {
  const Model model = small_model("llama");
  Plan plan = in_fp8(small_plan(model, {1, 2, 1}));
  plan.parallelism.sequence_parallel = true;
  const Program program = lower_small(model, plan)[0];
  int rounded = 0, maxima = 0;
  for (const Body& body : program.bodies)
    for (const Instruction& instruction : body.instructions) {
      if (instruction.kind == InstructionKind::all_gather &&
          instruction.group == GroupKind::tensor && is_8_bit(instruction.outputs[0].type.dtype))
        ++rounded;
      maxima += instruction.kind == InstructionKind::all_reduce && instruction.maximum;
    }
  // Each block gathers two inputs in the forward phase, gathers them again for the gradients, and
  // gathers the gradients of its two sums.
  CHECK(rounded == 4 * (2 + 2 + 2));
  CHECK(maxima == 4 * (2 + 2));
}

TEST_CASE("delayed scales ask for no pass over a tensor, and once a step for what all ranks saw",
          "[models][lower]") {
  const Model model = small_model("llama");
  Plan plan = in_fp8(small_plan(model, {2, 2, 2}));
  plan.parallelism.sequence_parallel = true;
  plan.training.fp8_recipe = Fp8Recipe::delayed;
  std::vector<std::string> names;
  for (const Program& program : lower_small(model, plan)) {
    CHECK(program.rounded.size() == 2 * (4 + 7 + 7));
    names.insert(names.end(), program.rounded.begin(), program.rounded.end());
    std::vector<GroupKind> maxima_over;
    for (const Body& body : program.bodies) {
      CHECK(count_ops(body, Op::amax) == 0);
      CHECK(count_ops(body, Op::update_largest) == (body.kind == Body::Kind::step_end ? 1 : 0));
      for (const Instruction& instruction : body.instructions)
        if (instruction.maximum) maxima_over.push_back(instruction.group);
    }
    CHECK(maxima_over == std::vector{GroupKind::tensor, GroupKind::rdp});
  }
  // One process uses the same names.
  plan.parallelism = {};
  const Program alone = lower_small(model, plan)[0];
  CHECK(std::ranges::is_permutation(names, alone.rounded));
  CHECK(std::ranges::count(names, "model.layers.2.mlp.down_proj.weight") == 1);
  CHECK(std::ranges::count(names, "model.layers.2.mlp.gate_proj input") == 1);
}

// Ranks save only their share of the inputs of queries, keys and values and of gate and up. Whole
// inputs would take 4 x 128 x (256 + 256) bytes, which is more than 8 bits save elsewhere.
TEST_CASE("with scales of blocks what was gathered is gathered and rounded again, not kept",
          "[models][lower]") {
  const Model model = wide_model();
  Plan plan = wide_plan(model, {1, 4, 1});
  plan.parallelism.sequence_parallel = true;
  plan.training.fp8_recipe = Fp8Recipe::mxfp8;
  const std::int64_t rounded = slot_bytes(lower_small(model, plan, transposing)[0]);
  plan.training.precision = Precision::bf16;
  CHECK(rounded <= slot_bytes(lower_small(model, plan)[0]));
}

TEST_CASE("a kernel that makes a tensor also rounds it in blocks, and finds its largest element",
          "[models][passes]") {
  const Model model = wide_model();
  const auto kernels_of = [&](Fp8Recipe recipe, CompilerLevel level, Op op) {
    Plan plan = wide_plan(model);
    plan.training.fp8_recipe = recipe;
    plan.training.compiler = level;
    if (level == CompilerLevel::none) plan.training.attention = AttentionKernel::unfused;
    const Graph graph = graph_of(model, plan);
    std::vector<Kernel> kernels;
    for (const Node& node : graph.nodes) {
      if (node.op != op) continue;
      std::vector<TensorType> inputs, outputs;
      for (int id : node.inputs) inputs.push_back(graph.tensor(id).type);
      for (int id : node.outputs) outputs.push_back(graph.tensor(id).type);
      append_kernels({node.op, node.attributes, inputs, outputs}, level, kernels);
    }
    return std::ranges::count(kernels, false, &Kernel::joins_neighbour);
  };
  // Each of 4 blocks rounds 7 weights, 4 inputs and 7 gradients. Norms make 2 of these tensors,
  // SwiGLU makes 1, and its gradient makes 2.
  CHECK(kernels_of(Fp8Recipe::tensorwise, CompilerLevel::none, Op::amax) == 4 * 18);
  CHECK(kernels_of(Fp8Recipe::tensorwise, CompilerLevel::fused, Op::amax) == 4 * (18 - 5));
  CHECK(kernels_of(Fp8Recipe::tensorwise, CompilerLevel::fused, Op::quantize) == 4 * 18);
  for (const Fp8Recipe recipe : {Fp8Recipe::delayed, Fp8Recipe::mxfp8}) {
    CHECK(kernels_of(recipe, CompilerLevel::fused, Op::quantize) == 4 * (18 - 5));
    CHECK(kernels_of(recipe, CompilerLevel::fused, Op::amax) == 0);
  }
}

TEST_CASE("in nvfp4 blocks of 16 have scales in e4m3, and tensors one of their own",
          "[models][passes]") {
  const Model model = wide_model();
  for (const DeviceFacts& device : {any_layout, transposing}) {
    Plan plan = wide_plan(model);
    plan.training.precision = Precision::nvfp4;
    plan.training.seed = 5;
    const Graph graph = graph_of(model, plan, device);
    int products = 0;
    std::set<std::uint64_t> rounding, signs;
    for (const Node& node : graph.nodes) {
      if (node.op == Op::quantize) {
        rounding.insert(node.attributes.rounding_key);
        signs.insert(node.attributes.hadamard_key);
        // Gradients are rounded stochastically. The factors of weight gradients go through the
        // Hadamard transform, and weights do not.
        CHECK((node.attributes.rounding_key != 0) == (node.phase == Phase::backward));
        CHECK((node.attributes.hadamard_key == 0) == (node.attributes.scale_rows == 16));
        CHECK(node.attributes.with_transposed);
      }
      if (!is_product(node.op) || !is_quantized(first_type(graph, node))) continue;
      ++products;
      REQUIRE(node.inputs.size() == 6);
      for (const int i : {0, 1}) {
        const TensorType& factor = graph.tensor(node.inputs[i]).type;
        const TensorType& scales = graph.tensor(node.inputs[2 + i]).type;
        CHECK(factor.dtype == Dtype::e2m1);
        CHECK(scales.dtype == Dtype::e4m3);
        const bool square = i == 1 && node.op != Op::linear_grad_weight;
        const ScaleBlock block = scale_block(factor.shape, scales.shape);
        CHECK(block.rows == (square ? 16 : 1));
        CHECK(block.columns == 16);
        CHECK(graph.tensor(node.inputs[4 + i]).type == TensorType{Shape{1}, Dtype::f32});
      }
      // Both factors of every matmul are contiguous along the summed dimension.
      CHECK(node.attributes.factors_transposed == (node.op == Op::linear_grad_weight));
      if (node.op != Op::linear_grad_weight)
        CHECK(node.attributes.weight_in_out == (node.op == Op::linear_grad_input));
    }
    CHECK(products == 4 * 7 * 3);
    CHECK(count_ops(graph, Op::amax, Phase::forward) == 4 * (7 + 4));
    CHECK(count_ops(graph, Op::amax, Phase::backward) == 4 * 7);
    CHECK(count_ops(graph, Op::transpose, Phase::backward) == 0);
    CHECK(rounding.size() == 1 + 4 * 7);  // 0, and one key for each layer
    CHECK(signs.size() == 2);             // 0, and the key of the run
    plan.training.seed = 6;
    for (const Node& node : graph_of(model, plan, device).nodes)
      if (node.op == Op::quantize && node.attributes.rounding_key != 0)
        CHECK_FALSE(rounding.contains(node.attributes.rounding_key));
  }
}

TEST_CASE("every legal plan of a small model lowers in nvfp4 to sound Programs",
          "[models][lower][release]") {
  int turn = 0;
  for (const char* family : {"gpt", "llama"}) {
    const Model model = small_model(family);
    for (Plan plan : small_plans(model)) {
      plan.training.precision = Precision::nvfp4;
      for (const CompilerLevel level : {CompilerLevel::fused, CompilerLevel::full}) {
        if (!is_tried(++turn, 5)) continue;
        if (level == CompilerLevel::full && plan.parallelism.pipeline == 4) continue;
        plan.training.compiler = level;
        INFO(describe(plan) << " " << family);
        const std::vector<Program> stages = lower_small(model, plan, any_layout);
        CHECK(broken_rule(stages).empty());
        for (const Program& program : stages) verify(program.memory);
      }
    }
  }
  const Model experts = small_model("mixtral");
  Plan plan = small_plan(experts, {});
  plan.training.precision = Precision::nvfp4;
  plan.training.fp8_experts = true;
  plan.training.micro_batch = 4;  // 16 slots of each expert
  const Graph graph = graph_of(experts, plan);
  CHECK(std::ranges::count_if(graph.nodes, [&](const Node& node) {
          return is_expert_product(node) && first_type(graph, node) == Dtype::e2m1;
        }) == 4 * 9);
  verify(lower_small(experts, plan, any_layout));
}

TEST_CASE("in nvfp4 inputs of linear layers are kept in 4 bits, weights in both directions",
          "[models][lower]") {
  const Model model = wide_model();
  Plan plan = wide_plan(model);
  plan.training.precision = Precision::bf16;
  const Program whole = lower_small(model, plan)[0];
  plan.training.precision = Precision::nvfp4;
  const Program rounded = lower_small(model, plan)[0];
  const auto of_weights = [](const Program& program) {
    return program.memory.class_bytes[static_cast<std::size_t>(MemoryClass::parameters)];
  };
  // Each of 4 blocks has 4 x 256 x 256 and 3 x 256 x 384 weights. They are kept in both directions,
  // each with half a byte for a weight and a scale of one byte for 256 weights. In addition, the
  // largest element of each of 7 weights is kept. Addresses are multiples of arena_alignment.
  const std::int64_t weights = 4 * (4 * 256 * 256 + 3 * 256 * 384);
  const std::int64_t kept = of_weights(rounded) - of_weights(whole);
  CHECK(kept >= 2 * (weights / 2 + weights / 256));
  CHECK(kept <= 2 * (weights / 2 + weights / 256) + 4 * 7 * 3 * arena_alignment);
  // Inputs are saved transposed: 128 rows of the inputs of queries, keys and values, of gate and
  // up, and of down take 9/16 byte for an element instead of 2. The output layer's input is saved
  // in addition to its bf16 values.
  const std::int64_t rows = 128;
  const std::int64_t less = 4 * rows * ((256 + 256 + 384) * 23 - 256 * 9) / 16;
  const std::int64_t saved = slot_bytes(whole) - slot_bytes(rounded);
  CHECK(saved <= less);
  CHECK(saved >= less - 4 * 4 * 3 * arena_alignment);
}

TEST_CASE("the products of 4 bits read a quarter of what 16 bits are", "[models]") {
  const Shape x{64, 32}, w{48, 32}, one{1};
  Attributes a;
  a.made = Dtype::bf16;
  const TensorType in[] = {
      {x, Dtype::e2m1},           {w, Dtype::e2m1},  {Shape{64, 2}, Dtype::e4m3},
      {Shape{3, 2}, Dtype::e4m3}, {one, Dtype::f32}, {one, Dtype::f32}};
  const TensorType out[] = {{Shape{64, 48}, Dtype::bf16}};
  std::vector<Kernel> kernels;
  append_kernels({Op::linear, a, in, out}, CompilerLevel::fused, kernels);
  REQUIRE(kernels.size() == 1);
  CHECK(kernels[0].quantized);
  CHECK(kernels[0].bytes == 64 * 16 + 48 * 16 + 128 + 6 + 8 + 64 * 48 * 2);
}

TEST_CASE("the products of 8 bits say so, and read half of what 16 bits are", "[models]") {
  const Shape x{64, 32}, w{48, 32}, scale{1, 1};
  Attributes a;
  a.made = Dtype::bf16;
  const TensorType in[] = {
      {x, Dtype::e4m3}, {w, Dtype::e4m3}, {scale, Dtype::f32}, {scale, Dtype::f32}};
  const TensorType out[] = {{Shape{64, 48}, Dtype::bf16}};
  std::vector<Kernel> kernels;
  append_kernels({Op::linear, a, in, out}, CompilerLevel::fused, kernels);
  REQUIRE(kernels.size() == 1);
  CHECK(kernels[0].quantized);
  CHECK(kernels[0].bytes == 64 * 32 + 48 * 32 + 2 * 4 + 64 * 48 * 2);
  CHECK(kernels[0].flops == 2.0 * 64 * 32 * 48);
}
