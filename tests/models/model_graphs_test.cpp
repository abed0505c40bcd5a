// Tests the graphs of the model families: the operations of their blocks, and the names of weights.
#include "models/compiler/passes/split/pad_vocabulary.h"
#include "models/compiler/passes/split/split_context.h"
#include "models/program/graph/experts.h"
#include "tests/models/imported.h"

using namespace meshwright::tests;
using nlohmann::json;

TEST_CASE("every model of the zoo has a sound graph", "[models][importers]") {
  const auto names = zoo_names();
  CHECK(names.size() >= 16);
  for (const std::string& name : names) {
    CAPTURE(name);
    const Model model = load_model(name, source);
    CHECK(model.name == name);
    const Graph graph = graph_of(model);
    verify(graph, "build_graph");
    // The units are an embedding, the blocks, a final norm unless norms follow the residual sums,
    // and a head. A decoder has an embedding and blocks of its own, which attend twice.
    const int stacks = model.has_decoder() ? 2 : 1;
    const bool ends_in_norm =
        model.family != Family::bert && model.architecture != Architecture::bart;
    const int around = 1 + (ends_in_norm ? 1 : 0);
    CHECK(static_cast<int>(graph.units.size()) == stacks * (model.layers + around) + 1);
    CHECK(nodes_of(graph, Op::attention) == (stacks == 2 ? 3 : 1) * model.layers);
    for (const Parameter& p : graph.parameters) {
      CHECK(p.decay == (p.global_shape.rank >= 2));
      if (p.cut.dim < 0) continue;
      std::int64_t sum = 0;
      for (std::int64_t segment : p.cut.segments) sum += segment;
      CHECK(sum == p.padded_shape[p.cut.dim]);
    }
  }
}

TEST_CASE("gpt2's graph", "[models][importers]") {
  const Graph graph = graph_of(load_model("gpt2", source));
  CHECK(graph.units.front().path == "transformer.wte");
  CHECK(graph.units[4].path == "transformer.h.3");
  CHECK(graph.units[4].is_block);
  CHECK(graph.units[13].path == "transformer.ln_f");
  CHECK(graph.units[14].path == "lm_head");
  const Parameter& qkv = parameter(graph, "transformer.h.0.attn.c_attn.weight");
  CHECK(qkv.global_shape == Shape{768, 2304});
  CHECK(qkv.cut.dim == 1);
  CHECK(qkv.cut.segments == std::vector<std::int64_t>{768, 768, 768});
  CHECK(parameter(graph, "transformer.h.0.attn.c_attn.bias").cut.segments.size() == 3);
  const Parameter& out = parameter(graph, "transformer.h.11.mlp.c_proj.weight");
  CHECK(out.cut.dim == 0);
  CHECK(out.cut.segments == std::vector<std::int64_t>{3072});
  CHECK(out.initial == Initial::residual_normal);
  CHECK(parameter(graph, "transformer.h.11.mlp.c_proj.bias").cut.dim == -1);
  CHECK_FALSE(has_parameter(graph, "lm_head.weight"));
  CHECK(users(graph, parameter(graph, "transformer.wte.weight").tensor) == 2);
  CHECK(graph.tensor(graph.tokens).type.shape == Shape{32});
  CHECK(graph.tensor(graph.loss).type == TensorType{{32}, Dtype::f32});
  CHECK(graph.tensor(graph.nodes.front().outputs[0]).type.dtype == Dtype::bf16);
}

TEST_CASE("the graphs of the other architectures", "[models][importers]") {
  const Graph llama = graph_of(load_model("llama-2-70b", source));
  CHECK(parameter(llama, "model.layers.79.self_attn.k_proj.weight").global_shape ==
        Shape{1024, 8192});
  CHECK(has_parameter(llama, "lm_head.weight"));
  CHECK(nodes_of(llama, Op::rope) == 2 * 80);
  const Graph neox = graph_of(load_model("gpt-neox-20b", source));
  CHECK(has_parameter(neox, "embed_out.weight"));
  CHECK(nodes_of(neox, Op::rope) == 44);
  CHECK(nodes_of(neox, Op::layer_norm) == 2 * 44 + 1);
  for (const Node& node : neox.nodes)
    if (node.op == Op::rope) CHECK(node.attributes.rotary_dim == 24);  // 6144 / 64 / 4
  const Graph neo = graph_of(load_model("gpt-neo-125m", source));
  CHECK(has_parameter(neo, "transformer.h.0.attn.attention.out_proj.bias"));
  CHECK_FALSE(has_parameter(neo, "transformer.h.0.attn.attention.q_proj.bias"));
  int attentions = 0;
  for (const Node& node : neo.nodes) {
    if (node.op != Op::attention) continue;
    CHECK(node.attributes.window == (attentions++ % 2 == 0 ? 0 : 256));
    CHECK_FALSE(node.attributes.scaled_scores);
  }
  const Graph gptj = graph_of(load_model("gpt-j-6b", source));
  CHECK(nodes_of(gptj, Op::layer_norm) == 28 + 1);
  CHECK(has_parameter(gptj, "lm_head.bias"));
  CHECK_FALSE(has_parameter(gptj, "transformer.h.0.attn.q_proj.bias"));
}

TEST_CASE("layers that share their parameters", "[models][importers]") {
  const Graph albert = graph_of(load_model("albert-base-v2", source));
  CHECK(albert.units[1].path == "albert.encoder.layer.0");
  CHECK(albert.units[12].path == "albert.encoder.layer.11");
  const std::string layer = "albert.encoder.albert_layer_groups.0.albert_layers.0.";
  CHECK(users(albert, parameter(albert, layer + "attention.query.weight").tensor) == 12);
  CHECK(users(albert, parameter(albert, layer + "full_layer_layer_norm.bias").tensor) == 12);
  // In ALBERT, the tables and the inputs of the output layer are narrower than the layers between
  // them.
  CHECK(parameter(albert, "albert.embeddings.word_embeddings.weight").global_shape ==
        Shape{30000, 128});
  CHECK(parameter(albert, "albert.encoder.embedding_hidden_mapping_in.weight").global_shape ==
        Shape{768, 128});
  CHECK(parameter(albert, "predictions.dense.weight").global_shape == Shape{128, 768});
  CHECK(error_with("albert-base-v2", "num_hidden_groups", 2) ==
        "config.json: /num_hidden_groups: 2: several groups of layers are not built; set it to 1");
  CHECK(error_with("albert-base-v2", "embedding_size", 0) ==
        "config.json: /embedding_size: 0 is out of range; use 1 to hidden_size 768");
}

TEST_CASE("a vision transformer's sequence is its image", "[models][importers]") {
  const Model vit = load_model("vit-base-patch16-224", source);
  CHECK(vit.positions == 197);  // 14 x 14 patches and the class token
  const Graph graph = graph_of(vit);
  CHECK(graph.sequence_length == 197);
  CHECK(graph.tensor(graph.tokens).type.shape == Shape{2, 3 * 224 * 224});
  CHECK(graph.tensor(graph.targets).type.shape == Shape{2});
  const Parameter& patches = parameter(graph, "vit.embeddings.patch_embeddings.projection.weight");
  CHECK(patches.global_shape == Shape{768, 3, 16, 16});
  CHECK(patches.shape == Shape{768, 768});
  CHECK(parameter(graph, "vit.embeddings.position_embeddings").global_shape == Shape{1, 197, 768});
  // A token takes 6 FLOPs for each weight of a matmul, and each pair of tokens takes 12 h per
  // layer. All tokens but one are patches, and the head reads only that one.
  const double h = 768, tokens = 2 * 197, layers = 12;
  CHECK(model_flops(graph) ==
        Approx(6 * tokens * layers * 12 * h * h + 12 * h * layers * 2 * 197 * 197 +
               6 * 2 * (196 * h * h + 1000 * h))
            .epsilon(1e-12));
  CHECK(error_with("vit-base-patch16-224", "tie_word_embeddings", true) == "");  // has no effect
  CHECK_FALSE(theirs(config_of("vit-base-patch16-224")
                         .patch(json::parse(
                             R"([{"op": "add", "path": "/tie_word_embeddings", "value": true}])")))
                  .tied_embeddings);
  CHECK(error_with("vit-base-patch16-224", "patch_size", 15) ==
        "config.json: /patch_size: 15 does not divide the image size 224; use a number that does");
  const Model ours_too = ours(
      R"({"family": "vit", "hidden": 64, "layers": 2, "heads": 4, "classes": 10, "image_size": 32,
          "patch_size": 4})");
  CHECK(ours_too.positions == 65);
  CHECK(ours_too.pixels() == 3 * 32 * 32);
}

TEST_CASE("masked and question-answering heads", "[models][importers]") {
  Model bert = load_model("bert-base", source);
  Training training = training_of(2, 128);
  training.predicted_positions = 20;
  const Graph masked = build_graph(bert, training);
  CHECK(masked.tensor(masked.positions).type.shape == Shape{2, 20});
  CHECK(masked.tensor(masked.targets).type.shape == Shape{40});
  CHECK(has_parameter(masked, "cls.predictions.bias"));
  for (const Node& node : masked.nodes)
    if (node.op == Op::attention) CHECK_FALSE(node.attributes.causal);
  training.predicted_positions = 0;  // 15 % of 128, rounded down
  const Graph usual = build_graph(bert, training);
  CHECK(usual.tensor(usual.positions).type.shape == Shape{2, 19});
  bert.head = Head::qa;
  const Graph spans = build_graph(bert, training);
  CHECK(spans.tensor(spans.targets).type.shape == Shape{2, 2});
  CHECK(has_parameter(spans, "qa_outputs.bias"));
  CHECK(spans.units.back().path == "qa_outputs");
  // RoBERTa's first two rows of the position table are not for tokens.
  CHECK(load_model("roberta-base", source).positions == 512);
}

TEST_CASE("heads that say the class of a text", "[models][importers]") {
  Model model = ours(
      R"({"family": "gpt", "hidden": 64, "layers": 2, "heads": 4, "vocab": 100, "positions": 32,
          "head": "classification", "classes": 100})");
  CHECK(model.head == Head::label);
  const Graph gpt = build_graph(model, training_of(2, 32));
  CHECK(gpt.tensor(gpt.positions).type.shape == Shape{2, 1});
  CHECK(gpt.tensor(gpt.targets).type.shape == Shape{2});
  CHECK(gpt.units.back().path == "score");
  CHECK(parameter(gpt, "score.weight").global_shape == Shape{100, 64});
  CHECK_FALSE(has_parameter(gpt, "score.bias"));
  // There are as many classes as tokens in the vocabulary. Only the table is padded.
  Plan plan;
  plan.training = training_of(2, 32);
  const Graph padded = pad_vocabulary(gpt, plan);
  CHECK(parameter(padded, "transformer.wte.weight").shape == Shape{128, 64});
  CHECK(parameter(padded, "score.weight").shape == Shape{100, 64});
  plan.parallelism.context = 2;
  CHECK(message_of([&] { split_context(gpt, plan); }) ==
        "/parallelism/context: heads mlm, qa and classification predict from positions chosen "
        "anywhere in the sequence, of which a rank of a context group holds a part; use 1");

  json config = config_of("bert-base");
  config["architectures"] = {"BertForSequenceClassification"};
  const Graph bert = build_graph(theirs(config), training_of(2, 32));
  CHECK(parameter(bert, "bert.pooler.dense.weight").global_shape == Shape{768, 768});
  CHECK(parameter(bert, "classifier.bias").global_shape == Shape{2});  // two classes by default
  config["id2label"] = {{"0", "no"}, {"1", "perhaps"}, {"2", "yes"}};
  CHECK(theirs(config).classes == 3);
  config["num_labels"] = 1;
  CHECK(message_of([&] { theirs(config); }) ==
        "config.json: /num_labels: 1 classes are out of range; use 2 to 65536");
  config["num_labels"] = 4;
  config["problem_type"] = "regression";
  CHECK(message_of([&] { theirs(config); }) ==
        "config.json: /problem_type: only classes are learned; set it to "
        "'single_label_classification'");
  config = config_of("gpt2");
  config["architectures"] = {"GPT2ForSequenceClassification"};
  config["pad_token_id"] = 50256;
  CHECK(theirs(config).pad_token == 50256);
  config["pad_token_id"] = 50257;
  CHECK(message_of([&] { theirs(config); }) ==
        "config.json: /pad_token_id: 50257 is not in the vocabulary; use 0 to 50256");
  config = config_of("t5-small");
  config["architectures"] = {"T5ForSequenceClassification"};
  CHECK(message_of([&] { theirs(config); }) ==
        "config.json: /architectures: only the language model's head is built for it");
}

namespace {

std::vector<int> windows_of(const Model& model) {
  std::vector<int> windows;
  for (const Node& node : meshwright::tests::graph_of(model).nodes)
    if (node.op == Op::attention) windows.push_back(node.attributes.window);
  return windows;
}

}  // namespace

TEST_CASE("windows of decoders", "[models][importers]") {
  CHECK(windows_of(load_model("mistral-7b-v0.1", source)) == std::vector<int>(32, 4096));
  json config = config_of("mistral-7b-v0.1");
  config.erase("sliding_window");  // transformers' default
  CHECK(windows_of(theirs(config)) == std::vector<int>(32, 4096));
  config["sliding_window"] = nullptr;
  CHECK(windows_of(theirs(config)) == std::vector<int>(32, 0));
  config = config_of("qwen2.5-0.5b");
  CHECK(windows_of(theirs(config)) == std::vector<int>(24, 0));
  config["use_sliding_window"] = true;
  config["sliding_window"] = 64;
  config["max_window_layers"] = 20;
  std::vector<int> expected(20, 0);
  expected.resize(24, 64);
  CHECK(windows_of(theirs(config)) == expected);
  config = config_of("gemma-2-2b");
  expected.clear();
  for (int pair = 0; pair < 13; ++pair) expected.insert(expected.end(), {4096, 0});
  CHECK(windows_of(theirs(config)) == expected);
  config.erase("sliding_window");
  CHECK(windows_of(theirs(config)) == expected);
  config["layer_types"] = std::vector<std::string>(26, "full_attention");
  CHECK(windows_of(theirs(config)) == std::vector<int>(26, 0));
}

TEST_CASE("Gemma 2 bounds scores and logits, or does not", "[models][importers]") {
  const auto caps = [](const Graph& graph) {
    std::vector<double> found;
    for (const Node& node : graph.nodes)
      if (node.op == Op::attention) {
        CHECK(node.attributes.score_width == 144);
        found.push_back(node.attributes.score_cap);
      }
    return found;
  };
  const auto bounds_logits = [](const Graph& graph) {
    return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                       [](const Node& node) { return node.op == Op::tanh; });
  };
  json config = config_of("gemma-2-27b");
  const Graph capped = graph_of(theirs(config));
  CHECK(caps(capped) == std::vector<double>(46, 50));
  CHECK(bounds_logits(capped));
  config["attn_logit_softcapping"] = config["final_logit_softcapping"] = nullptr;
  const Graph free = graph_of(theirs(config));
  CHECK(caps(free) == std::vector<double>(46, 0));
  CHECK_FALSE(bounds_logits(free));
}

TEST_CASE("matrices that are published as one", "[models][importers]") {
  const Graph phi = graph_of(load_model("phi-3-mini-4k-instruct", source));
  const Parameter& up = parameter(phi, "model.layers.3.mlp.up_proj.weight");
  CHECK(up.part == PublishedPart{"model.layers.3.mlp.gate_up_proj.weight", 1, 16384, 8192});
  CHECK(shape_of_whole(*up.part, up.global_shape) == Shape{16384, 3072});
  // Falcon 40B has 128 heads in 8 groups of 16, each with one key and one value.
  const Graph falcon = graph_of(load_model("falcon-40b", source));
  const Parameter& k = parameter(falcon, "transformer.h.0.self_attention.key.weight");
  CHECK(k.part == PublishedPart{"transformer.h.0.self_attention.query_key_value.weight", 8, 18 * 64,
                                16 * 64});
  const auto runs = runs_of(*k.part, k.global_shape);
  REQUIRE(runs.size() == 8);
  CHECK(runs[1].of_part == 64 * 8192);
  CHECK(runs[1].of_whole == (18 + 16) * 64 * 8192);
  CHECK(runs[1].count == 64 * 8192);
  CHECK_FALSE(parameter(falcon, "transformer.h.0.self_attention.dense.weight").part);
}

TEST_CASE("experts that are published as one", "[models][importers]") {
  const Graph granite = graph_of(load_model("granite-3.0-1b-a400m", source));
  const Parameter& up = parameter(granite, "model.layers.2.block_sparse_moe.up_linear.weight");
  REQUIRE(up.part);
  CHECK(up.part->whole == "model.layers.2.block_sparse_moe.input_linear.weight");
  CHECK(shape_of_whole(*up.part, up.global_shape) == Shape{32, 1024, 1024});
  const auto below = runs_of(*up.part, up.global_shape);
  REQUIRE(below.size() == 32);
  CHECK(below[3].of_part == 3 * 512 * 1024);
  CHECK(below[3].of_whole == (3 * 1024 + 512) * 1024);
  CHECK(below[3].count == 512 * 1024);
  CHECK(below[3].step == 1);
  // gpt-oss stores [in, out], and the columns of gate and up alternate.
  const Graph oss = graph_of(load_model("gpt-oss-20b", source));
  const Parameter& in = parameter(oss, "model.layers.2.mlp.experts.up_proj");
  REQUIRE(in.part);
  CHECK(in.part->whole == "model.layers.2.mlp.experts.gate_up_proj");
  CHECK(shape_of_whole(*in.part, in.global_shape) == Shape{32, 2880, 5760});
  const auto columns = runs_of(*in.part, in.global_shape);
  REQUIRE(columns.size() == 32 * 2880);
  CHECK(columns[2880 + 7].of_part == (2880 + 7) * 2880);
  CHECK(columns[2880 + 7].of_whole == 2880 * 5760 + 15);
  CHECK(columns[2880 + 7].count == 2880);
  CHECK(columns[2880 + 7].step == 5760);
  const Parameter& bias = parameter(oss, "model.layers.2.mlp.experts.gate_proj_bias");
  REQUIRE(bias.part);
  CHECK(shape_of_whole(*bias.part, bias.global_shape) == Shape{32, 5760});
  CHECK(runs_of(*bias.part, bias.global_shape)[2880 + 7].of_whole == 5760 + 14);
  const Parameter& down = parameter(oss, "model.layers.2.mlp.experts.down_proj");
  REQUIRE(down.part);
  CHECK(down.part->whole == down.name);
  CHECK(runs_of(*down.part, down.global_shape)[1].of_whole == 1);
  CHECK_FALSE(parameter(oss, "model.layers.2.mlp.experts.down_proj_bias").part);
}

TEST_CASE("attention with sinks keeps a log-sum-exp", "[models][importers]") {
  const Model model = load_model("gpt-oss-20b", source);
  Training training;
  training.sequence_length = 16;
  for (const Node& node : build_graph(model, training).nodes)
    if (node.op == Op::attention) CHECK(node.attributes.sinks);
  training.attention = AttentionKernel::unfused;
  CHECK_THROWS_WITH(
      build_graph(model, training),
      "/training/attention: 'unfused' of a model with attention sinks is not supported "
      "yet");
}

TEST_CASE("blocks with a window have rotary positions of their own", "[models][importers]") {
  const Graph gemma = graph_of(load_model("gemma-3-1b", source));
  int block = -1;
  for (const Node& node : gemma.nodes) {
    if (node.op == Op::embedding) block = 0;
    if (node.op == Op::rope) CHECK(node.attributes.rotary_base == (block % 6 == 5 ? 1e6 : 1e4));
    if (node.op == Op::attention) CHECK(node.attributes.window == (block++ % 6 == 5 ? 0 : 512));
  }
  CHECK(block == 26);
}

TEST_CASE("Llama 4's blocks with and without rotary positions, with and without experts",
          "[models][importers]") {
  const auto built = [](const Model& model, int length) {
    Training training;
    training.sequence_length = length;
    return build_graph(model, training);
  };
  const Model maverick = load_model("llama-4-maverick-17b-128e", source);
  CHECK(maverick.dense_ffn == 16384);
  CHECK(maverick.has_experts(1));
  CHECK_FALSE(maverick.has_experts(0));
  // The sequence fits into one chunk, and is shorter than the length from which queries are scaled.
  const Graph plain = built(maverick, 8191);
  CHECK(nodes_of(plain, Op::rope) == 2 * 36);
  CHECK(nodes_of(plain, Op::head_norm) == 0);
  for (const Node& node : plain.nodes) CHECK(node.attributes.chunk == 0);
  const Model scout = load_model("llama-4-scout-17b-16e", source);
  for (const int length : {8192, 8193}) {
    const Graph graph = built(scout, length);
    int block = 0, grown = 0;
    for (const Node& node : graph.nodes) {
      if (node.op == Op::rope && node.attributes.temperature > 0) {
        ++grown;
        CHECK(block % 4 == 3);
      }
      if (node.op != Op::attention) continue;
      CHECK(node.attributes.chunk == (length > 8192 && block % 4 != 3 ? 8192 : 0));
      ++block;
    }
    CHECK(grown == 12);
    CHECK(nodes_of(graph, Op::rope) == 2 * 36 + 12);
    CHECK(nodes_of(graph, Op::head_norm) == 2 * 36);
    CHECK(nodes_of(graph, Op::scale_rows) == 48);
  }
  // Llama 4 stores [in, out]: the first half of the columns is the gate, the second half the other
  // factor.
  const Graph graph = graph_of(scout);
  const Parameter& up = parameter(graph, "model.layers.2.feed_forward.experts.up_proj");
  REQUIRE(up.part);
  CHECK(up.part->whole == "model.layers.2.feed_forward.experts.gate_up_proj");
  CHECK(shape_of_whole(*up.part, up.global_shape) == Shape{16, 5120, 16384});
  CHECK(runs_of(*up.part, up.global_shape)[1].of_whole == 8192 + 1);
}
