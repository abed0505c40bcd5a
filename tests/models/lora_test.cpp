// Tests Programs in which only adapters are trained.
#include <algorithm>
#include <map>
#include <set>

#include "models/compiler/passes/graph/add_adapters.h"
#include "models/compiler/passes/pass.h"
#include "models/core/error.h"
#include "models/program/graph/op_table.h"
#include "tests/catch.h"
#include "tests/models/plans.h"

using namespace meshwright::tests;

namespace {

Plan adapted(const Model& model, SmallDegrees degrees, std::vector<std::string> targets) {
  Plan plan = small_plan(model, degrees);
  plan.training.lora = Lora{2, 8, 0, std::move(targets)};
  return plan;
}

Graph graph_of(const Model& model, const Plan& plan) {
  return run_passes(build_graph(model, plan.training), plan);
}

std::int64_t elements_of(const Program& program, bool trained) {
  std::int64_t elements = 0;
  for (const StageParameter& each : program.parameters)
    if (each.parameter.trainable == trained) elements += each.parameter.shape.elements();
  return elements;
}

std::int64_t bytes_of_class(const Program& program, MemoryClass cls) {
  return program.memory.class_bytes[static_cast<std::size_t>(cls)];
}

}  // namespace

TEST_CASE("a name means the modules whose paths end with it", "[models][lora]") {
  CHECK(names_module("q_proj", "model.layers.0.self_attn.q_proj"));
  CHECK(names_module("self_attn.q_proj", "model.layers.0.self_attn.q_proj"));
  CHECK(names_module("0.*.q_proj", "model.layers.0.self_attn.q_proj"));
  CHECK(names_module("model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.q_proj"));
  CHECK_FALSE(names_module("1.*.q_proj", "model.layers.0.self_attn.q_proj"));
  CHECK_FALSE(names_module("proj", "model.layers.0.self_attn.q_proj"));
  CHECK_FALSE(names_module("x.model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.q_proj"));
}

TEST_CASE("what is not trained has no gradients, no states and no part in a step's end",
          "[models][lora]") {
  const Model model = small_model("llama");
  for (const int zero : {0, 1, 2, 3}) {
    INFO(zero);
    const Plan plan = adapted(model, {1, 1, 2, 4, zero}, {"q_proj", "v_proj"});
    const Program program = lower_small(model, plan).front();
    // Each of four blocks has two adapted matrices of 32 x 32, each with A [2,32] and B [32,2].
    CHECK(elements_of(program, true) == 4 * 2 * (2 * 32 + 32 * 2));
    const Program whole = lower_small(model, small_plan(model, {1, 1, 2, 4, zero})).front();
    CHECK(elements_of(program, false) == elements_of(whole, true));
    std::int64_t trained = 0, stepped = 0;
    std::set<int> frozen;
    for (std::size_t b = 0; b < program.buckets.size(); ++b) {
      const Bucket& bucket = program.buckets[b];
      if (bucket.frozen) {
        frozen.insert(static_cast<int>(b));
        CHECK(bucket.gradients.buffer < 0);
        CHECK(bucket.first_moment.buffer < 0);
        CHECK(bucket.sharded == (zero == 3));
        CHECK_FALSE(bucket.has_master());
      } else {
        trained += bucket.elements, stepped += bucket.shard_elements;
      }
    }
    CHECK(!frozen.empty());
    CHECK(bytes_of_class(program, MemoryClass::optimizer) >= 8 * stepped);
    CHECK(bytes_of_class(program, MemoryClass::optimizer) < 8 * stepped + 4096);
    CHECK(bytes_of_class(program, MemoryClass::gradients) <= 4 * trained + 4096);
    std::set<int> frozen_gathers;
    for (const Body& body : program.bodies)
      for (const Instruction& each : body.instructions) {
        if (!frozen.contains(each.bucket)) continue;
        CHECK(each.kind == InstructionKind::all_gather);
        CHECK((body.kind == Body::Kind::forward || body.kind == Body::Kind::backward));
        frozen_gathers.insert(each.bucket);
      }
    CHECK(frozen_gathers.size() == (zero == 3 ? frozen.size() : 0));
  }
}

TEST_CASE("frozen weights of blocks are stored in 4 bits, and widened before each product",
          "[models][lora]") {
  Model model = small_model("llama");
  for (const CompilerLevel level :
       {CompilerLevel::none, CompilerLevel::fused, CompilerLevel::full}) {
    Plan plan = adapted(model, {}, {std::string(all_linear)});
    plan.training.compiler = level;
    plan.training.attention = AttentionKernel::unfused;
    plan.training.precision = Precision::bf16;
    plan.training.recompute = Recompute::full;
    const Graph plain = graph_of(model, plan);
    plan.training.lora->base_weights = BaseWeights::nf4;
    const Graph graph = graph_of(model, plan);
    CHECK(model_flops(graph) == model_flops(plain));
    std::set<int> narrow;
    for (const Parameter& each : graph.parameters) {
      INFO(each.name);
      const bool is_layer = each.name.find("proj.weight") != std::string::npos;
      CHECK((each.dtype == Dtype::nf4) == is_layer);
      if (each.dtype != Dtype::nf4) CHECK(each.dtype == Dtype::bf16);
      if (is_layer) narrow.insert(each.tensor);
    }
    CHECK(narrow.size() == 4 * 7);
    // Weights are widened in the forward pass, in recomputation and in the backward pass. In the
    // backward pass, the first layers of the first block need none, because nothing below is
    // trained.
    std::map<Phase, int> widened;
    for (const Node& node : graph.nodes)
      for (const int id : node.inputs) {
        if (!narrow.contains(id)) continue;
        CHECK(node.op == Op::widen_weights);
        ++widened[node.phase];
      }
    CHECK(widened[Phase::forward] == 4 * 7);
    CHECK(widened[Phase::recompute] > 0);
    CHECK(widened[Phase::recompute] <= 4 * 7);
    CHECK(widened[Phase::backward] == 4 * 7 - 3);
  }
}

TEST_CASE("weights in 4 bits take the memory of their codes and scales on every rank",
          "[models][lora]") {
  Model model = small_model("llama");
  model.hidden = 256;
  model.head_dim = 64;
  model.ffn = 512;
  const auto frozen_bytes = [&](int data, int zero, BaseWeights kind, bool twice) {
    Plan plan = adapted(model, {1, 1, data, 4, zero}, {"q_proj"});
    plan.training.precision = Precision::bf16;
    plan.training.lora->base_weights = kind;
    plan.training.lora->double_quantization = twice;
    const Program program = lower_small(model, plan).front();
    std::int64_t bytes = 0;
    for (const Bucket& bucket : program.buckets)
      if (bucket.frozen && bucket.own_weights.type.dtype != Dtype::bf16)
        bytes += bucket.own_weights.type.bytes();
    return static_cast<double>(bytes);
  };
  constexpr double weights = 4 * (4.0 * 256 * 256 + 3.0 * 256 * 512);
  for (const int data : {1, 2})
    for (const int zero : {0, 3}) {
      const double parts = zero == 3 ? data : 1;
      CHECK(frozen_bytes(data, zero, BaseWeights::unquantized, false) == 0);
      CHECK(frozen_bytes(data, zero, BaseWeights::nf4, false) == weights / parts * 36 / 64);
      CHECK(frozen_bytes(data, zero, BaseWeights::nf4, true) == weights / parts * 8452 / 16384);
      CHECK(frozen_bytes(data, zero, BaseWeights::int4, false) == weights / parts * 66 / 128);
    }
}

TEST_CASE("groups of int4 are whole in every row", "[models][lora]") {
  const Model model = small_model("llama");
  Plan plan = adapted(model, {}, {"q_proj"});
  plan.training.lora->base_weights = BaseWeights::int4;
  plan.training.lora->group_size = 32;
  CHECK_NOTHROW(graph_of(model, plan));
  plan.training.lora->group_size = 0;
  CHECK_THROWS_WITH(graph_of(model, plan),
                    "/training/lora/group_size: the rows of "
                    "model.layers.0.self_attn.q_proj.weight have 32 elements, which are not whole "
                    "groups of 128; use a divisor, or base_weights 'nf4'");
}

TEST_CASE("the backward makes gradients of adapters alone, and none below the first one",
          "[models][lora]") {
  const Model model = small_model("gpt");
  const Plan plan = adapted(model, {}, {"3.attn.c_attn"});
  const Graph graph = graph_of(model, plan);
  std::map<Op, int> made;
  for (const Node& node : graph.nodes)
    if (node.phase == Phase::backward) {
      ++made[node.op];
      CHECK(graph.units[static_cast<std::size_t>(graph.unit_of(node))].path != "transformer.h.2");
    }
  CHECK(made[Op::linear_grad_weight] == 2);  // of A and B
  // The head, the MLP's two layers, attention's output layer and B need gradients of their inputs.
  // A needs none.
  CHECK(made[Op::linear_grad_input] == 5);
  CHECK(made[Op::bias_grad] == 0);
  CHECK(made[Op::embedding_grad] == 0);
  for (const Node& node : graph.nodes)
    if (node.op == Op::layer_norm_grad) CHECK(node.outputs.size() == 1);
}

TEST_CASE("an adapter is cut as its layer is, without communication of its own", "[models][lora]") {
  const Model model = small_model("llama");
  for (const bool rows : {false, true}) {
    Plan plan = adapted(model, {1, 2, 1, 4, 0}, {"q_proj", "down_proj"});
    plan.parallelism.sequence_parallel = rows;
    const Graph with = graph_of(model, plan);
    plan.training.lora.reset();
    const Graph without = graph_of(model, plan);
    const auto exchanges = [](const Graph& graph) {
      return std::ranges::count_if(graph.nodes, [](const Node& node) {
        return static_cast<bool>(info(node.op).communication);
      });
    };
    CHECK(exchanges(with) <= exchanges(without));
    for (const Parameter& each : with.parameters) {
      if (!each.trainable) continue;
      INFO(each.name);
      const bool by_outputs = each.name.find("q_proj") != std::string::npos;
      const bool is_cut = each.name.ends_with(by_outputs ? "lora_B.weight" : "lora_A.weight");
      CHECK(each.is_cut == is_cut);
      CHECK(each.partial_over_tensor == !is_cut);
    }
  }
}

TEST_CASE("FLOPs of what is not trained are those of two passes", "[models][lora]") {
  const Model model = small_model("llama");
  Plan plan = adapted(model, {}, {"q_proj"});
  const double with = model_flops(graph_of(model, plan));
  plan.training.lora.reset();
  const double without = model_flops(graph_of(model, plan));
  CHECK(with > without * 0.66);
  CHECK(with < without * 0.85);
}

TEST_CASE("names of no linear layer, and layers that cannot be adapted yet, are refused",
          "[models][lora]") {
  const Model gpt = small_model("gpt");
  const auto problem = [&](const Model& model, const std::string& target) -> std::string {
    try {
      graph_of(model, adapted(model, {}, {target}));
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  CHECK(problem(gpt, "q_proj")
            .find("no linear layer of the model is named 'q_proj'; it has "
                  "c_attn, c_proj and c_fc") != std::string::npos);
  CHECK(problem(gpt, "c_attn").empty());
  CHECK(problem(small_model("llama"), "lm_head").find("is in no block") != std::string::npos);
}

TEST_CASE("a head that says classes is trained whole beside adapters", "[models][lora]") {
  for (const char* family : {"llama", "bert"}) {
    INFO(family);
    Model model = small_model(family);
    model.head = Head::label;
    model.classes = 3;
    const Graph graph = graph_of(model, adapted(model, {}, {std::string(all_linear)}));
    std::set<std::string> whole;
    for (const Parameter& parameter : graph.parameters)
      if (parameter.trainable && parameter.name.find(".lora_") == std::string::npos)
        whole.insert(parameter.name);
    if (model.is_causal())
      CHECK(whole == std::set<std::string>{"score.weight"});
    else
      CHECK(whole == std::set<std::string>{"bert.pooler.dense.bias", "bert.pooler.dense.weight",
                                           "classifier.bias", "classifier.weight"});
  }
}

TEST_CASE("an adapter begins as nothing, in the type of the weight that it is of",
          "[models][lora]") {
  for (const Precision precision : {Precision::fp32, Precision::bf16})
    for (const int tensor : {1, 2})
      for (const double alpha : {2.0, 8.0}) {
        const Model model = small_model("llama");
        Plan plan = adapted(model, {1, tensor, 1}, {"q_proj", "o_proj"});
        plan.training.precision = precision;
        plan.training.lora->alpha = alpha;
        plan.training.lora->dropout = 0.1;
        const Graph graph = graph_of(model, plan);
        int adapters = 0;
        for (const Parameter& p : graph.parameters) {
          const bool first = p.name.ends_with(".lora_A.weight");
          const bool second = p.name.ends_with(".lora_B.weight");
          INFO(p.name);
          CHECK(p.trainable == (first || second));
          if (!first && !second) continue;
          ++adapters;
          CHECK(p.initial == (first ? Initial::kaiming_uniform : Initial::zeros));
          CHECK(p.dtype == storage_of(precision));
          CHECK(p.decay);
          // Adapters have rank 2, layers 32 columns. B of q_proj is split by rows as q_proj is, and
          // A of o_proj by columns. The other two are whole on every rank, and their gradients are
          // summed over the ranks.
          CHECK(p.global_shape == (first ? Shape{2, 32} : Shape{32, 2}));
          const bool is_cut =
              tensor > 1 && (p.name.find("q_proj") != std::string::npos ? second : first);
          CHECK(p.is_cut == is_cut);
          Shape shape = p.global_shape;
          if (is_cut) shape[second ? 0 : 1] /= tensor;
          CHECK(p.shape == shape);
          CHECK(p.partial_over_tensor == (tensor > 1 && !is_cut));
        }
        CHECK(adapters == 4 * 2 * 2);
        // The input of an adapter has dropout, with one mask for each module. Its result is scaled
        // by alpha / rank = 4, or not at all if that is 1. The input of o_proj is this rank's share
        // of the columns.
        std::set<std::uint64_t> keys;
        for (const Node& node : graph.nodes)
          if (node.op == Op::dropout) {
            const bool of_o =
                graph.modules[static_cast<std::size_t>(node.module)].path.ends_with("o_proj");
            CHECK(node.attributes.dropout == 0.1);
            CHECK(node.attributes.hidden_share == (of_o && tensor > 1));
            keys.insert(node.attributes.dropout_key);
          } else if (node.op == Op::scale && node.phase == Phase::forward) {
            CHECK(node.attributes.factor == alpha / 2);
          }
        CHECK(keys.size() == 4 * 2);
      }
}

TEST_CASE("peft converts the inputs of its adapters to fp32, in kernels of their own",
          "[models][lora]") {
  const Model model = small_model("llama");
  const auto dropouts = [&](Framework framework, auto change) {
    Plan plan = adapted(model, {}, {std::string(all_linear)});
    plan.training.framework = framework;
    plan.training.precision = Precision::bf16;
    plan.training.compiler = CompilerLevel::none;
    plan.training.recompute = Recompute::none;
    plan.training.lora->dropout = 0;
    change(plan.training);
    const Graph graph = graph_of(model, plan);
    return std::ranges::count_if(graph.nodes, [](const Node& node) {
      const bool drops = node.op == Op::dropout || node.op == Op::dropout_grad;
      return drops && node.attributes.drops_in_fp32;
    });
  };
  const auto as_it_is = [](Training&) {};
  // Each of 4 * 7 layers has one in the forward and one in the backward pass. In the backward pass,
  // the first block's queries, keys and values need none, because nothing below them is trained.
  CHECK(dropouts(Framework::transformers, as_it_is) == 2 * 4 * 7 - 3);
  CHECK(dropouts(Framework::deepspeed, as_it_is) == 2 * 4 * 7 - 3);
  CHECK(dropouts(Framework::pytorch, as_it_is) == 0);
  CHECK(dropouts(Framework::meshwright, as_it_is) == 0);
  CHECK(dropouts(Framework::transformers, [](Training& t) { t.compiler = CompilerLevel::full; }) ==
        0);
  CHECK(dropouts(Framework::transformers, [](Training& t) { t.precision = Precision::fp32; }) == 0);
  CHECK(dropouts(Framework::transformers,
                 [](Training& t) { t.master_weights = MasterWeights::none; }) == 0);
  CHECK(dropouts(Framework::transformers,
                 [](Training& t) { t.lora->base_weights = BaseWeights::nf4; }) == 0);
}
