#include <filesystem>
#include <functional>

#include "models/compiler/passes/split/pad_vocabulary.h"
#include "models/compiler/passes/split/split_context.h"
#include "models/program/graph/experts.h"
#include "models/program/graph/graph.h"
#include "tests/models/imported.h"
#include "tests/test_folder.h"

using namespace meshwright::tests;
using nlohmann::json;

TEST_CASE("parameter counts are the published ones", "[models][importers]") {
  CHECK(count("gpt2") == 124'439'808);
  CHECK(count("gpt2-medium") == 354'823'168);
  CHECK(count("gpt2-large") == 774'030'080);
  CHECK(count("gpt2-xl") == 1'557'611'200);
  CHECK(count("gpt-j-6b") == 6'050'882'784);
  CHECK(count("gpt-neo-125m") == 125'198'592);
  CHECK(count("gpt-neo-1.3b") == 1'315'575'808);
  CHECK(count("gpt-neo-2.7b") == 2'651'307'520);
  CHECK(count("gpt-neox-20b") == 20'554'567'680);
  CHECK(count("bert-base") == 109'514'298);
  CHECK(count("bert-large") == 335'174'458);
  CHECK(count("roberta-base") == 124'697'433);
  CHECK(count("llama-2-7b") == 6'738'415'616);
  CHECK(count("llama-2-13b") == 13'015'864'320);
  CHECK(count("llama-2-70b") == 68'976'648'192);
  CHECK(count("llama-3-8b") == 8'030'261'248);
  CHECK(count("llama-3-70b") == 70'553'706'496);
  CHECK(count("llama-3-405b") == 405'853'388'800);
  CHECK(count("mixtral-8x7b") == 46'702'792'704);
  // Published sizes are rounded, and leave out the head or not; these are counted in transformers.
  CHECK(count("distilgpt2") == 81'912'576);
  CHECK(count("bert-base-uncased") == 109'514'298);
  CHECK(count("bert-base-cased") == 108'340'804);
  CHECK(count("bert-base-chinese") == 102'290'312);
  CHECK(count("bert-base-multilingual-cased") == 177'974'523);
  CHECK(count("bert-base-multilingual-uncased") == 167'463'831);
  CHECK(count("bert-base-japanese") == 110'650'880);
  CHECK(count("bert-base-japanese-whole-word-masking") == 110'650'880);
  CHECK(count("distilroberta-base") == 82'170'201);
  CHECK(count("camembert-base") == 110'655'493);
  CHECK(count("xlm-roberta-base") == 278'295'186);
  CHECK(count("distilbert-base-uncased") == 66'985'530);
  CHECK(count("albert-base-v2") == 11'221'680);
  CHECK(count("vit-base-patch16-224") == 86'567'656);
  CHECK(count("bart-base") == 139'420'416);
  CHECK(count("bart-large") == 406'291'456);
  CHECK(count("t5-small") == 60'506'624);
  CHECK(count("t5-base") == 222'903'552);
  CHECK(count("t5-large") == 737'668'096);
  CHECK(count("t5-v1_1-small") == 76'961'152);  // its head is not tied
  CHECK(count("minilmv2-l6-h384") == 30'345'945);
  CHECK(count("qwen2.5-7b") == 7'615'616'512);
  CHECK(count("qwen2.5-0.5b") == 494'032'768);
  CHECK(count("qwen3-8b") == 8'190'735'360);
  CHECK(count("qwen3-0.6b") == 596'049'920);
  CHECK(count("qwen3-30b-a3b") == 30'532'122'624);
  CHECK(count("qwen3-235b-a22b") == 235'093'634'560);
  CHECK(count("olmoe-1b-7b-0924") == 6'919'161'856);
  CHECK(count("glm-4.5-air") == 106'852'245'504);
  CHECK(count("deepseek-v2-lite") == 15'706'484'224);
  CHECK(count("deepseek-v3") == 671'026'404'352);
  CHECK(count("qwen1.5-moe-a2.7b") == 14'315'784'192);
  CHECK(count("granite-3.0-1b-a400m") == 1'334'628'352);
  CHECK(count("gpt-oss-20b") == 20'914'757'184);
  CHECK(count("gpt-oss-120b") == 116'829'156'672);
  CHECK(count("gemma-3-1b") == 999'885'952);
  CHECK(count("llama-4-scout-17b-16e") == 107'769'861'120);
  CHECK(count("llama-4-maverick-17b-128e") == 400'711'848'960);
  CHECK(count("phi-3-mini-4k-instruct") == 3'821'079'552);
  CHECK(count("gemma-2b") == 2'506'172'416);
  CHECK(count("gemma-7b") == 8'537'680'896);
  CHECK(count("gemma-2-2b") == 2'614'341'888);
  CHECK(count("gemma-2-9b") == 9'241'705'984);
  CHECK(count("gemma-2-27b") == 27'227'128'320);
  CHECK(count("olmo-2-1124-7b") == 7'298'617'344);
  CHECK(count("starcoder2-7b") == 7'173'923'840);
  CHECK(count("stablelm-2-1_6b") == 1'644'515'328);
  CHECK(count("minitron-4b-base") == 4'190'509'056);
  CHECK(count("opt-1.3b") == 1'315'758'080);
  CHECK(count("falcon-7b") == 6'921'720'704);
  CHECK(count("falcon-40b") == 41'303'293'952);
  CHECK(count("starcoder") == 15'517'456'384);
  CHECK(count("c4ai-command-r-v01") == 34'980'831'232);
  CHECK(count("internlm2-7b") == 7'737'708'544);
  CHECK(count("mistral-7b-v0.1") == 7'241'732'096);
  CHECK(count("llama-3.1-8b") == 8'030'261'248);
  CHECK(count("llama-3.2-1b") == 1'235'814'400);
}

TEST_CASE("parameter counts by arithmetic", "[models][importers]") {
  // GPT-3: 12 h^2 + 13 h per layer, V h + P h + 2 h outside.
  const std::int64_t h = 12288;
  CHECK(count("gpt3-175b") == 96 * (12 * h * h + 13 * h) + (50257 + 2048) * h + 2 * h);
  // BERT 10B: 4 h^2 + 2 h f + 9 h + f per layer, (V + 512 + 2) h + 2 h in the embeddings, and in
  // the head h^2 + h, a norm of 2 h and V biases.
  const std::int64_t b = 2560, f = 10240, v = 32008;
  CHECK(count("bert-10b") ==
        127 * (4 * b * b + 2 * b * f + 9 * b + f) + (v + 514) * b + 2 * b + b * b + 3 * b + v);
  // MPT-7B: no biases: 12 h^2 + 2 h per layer, V h + h outside; published: 6,649,286,656.
  const Model mpt = ours(
      R"({"family": "mpt", "hidden": 4096, "layers": 32, "heads": 32, "vocab": 50432,
          "positions": 2048})");
  CHECK(parameter_count(graph_of(mpt)) == 6'649'286'656);
  // BLOOM-560M, published: 559,214,592.
  const Model bloom =
      ours(R"({"family": "bloom", "hidden": 1024, "layers": 24, "heads": 16, "vocab": 250880})");
  CHECK(parameter_count(graph_of(bloom)) == 559'214'592);
}

// The published files' 61st layer without its copies of the table and of the head: the paper's
// block of 11,507,286,016 parameters, three norms of 7168, and a matrix of 7168 x 14336.
TEST_CASE("a block of multi-token prediction has the parameters that were published",
          "[models][importers]") {
  const Model model = load_model("deepseek-v3", source);
  Training training = training_of(2, 16);
  training.mtp_layers = 1;
  const Graph graph = build_graph(model, training);
  CHECK(parameter_count(graph) - count("deepseek-v3") == 11'507'286'016 + 3 * 7168 + 7168 * 14336);
  const Parameter& of_hidden = parameter(graph, "model.layers.61.h_proj.weight");
  REQUIRE(of_hidden.part.has_value());
  CHECK(of_hidden.part->whole == "model.layers.61.eh_proj.weight");
  CHECK(shape_of_whole(*of_hidden.part, of_hidden.global_shape) == Shape{7168, 14336});
  for (const char* name : {"enorm", "hnorm", "shared_head.norm", "mlp.gate"})
    CHECK(parameter(graph, std::string("model.layers.61.") + name + ".weight").decay ==
          (std::string(name) == "mlp.gate"));
}

// 12.88 G of Mixtral's parameters are active in a token. FLOPs: 6 for each of them that is in a
// product (the token table is not), and 12 h for each pair of tokens and layer, the mask not taken
// off (4 h forward, three times that with the gradients).
TEST_CASE("a token costs what its own experts cost", "[models][importers]") {
  const Model model = load_model("mixtral-8x7b", source);
  const double tokens = 32, h = 4096, layers = 32, pairs = 2.0 * 16 * 16;
  const double expert = 3.0 * 14336 * h, table = 32000 * h;
  const double active = 46'702'792'704 - layers * 6 * expert;
  CHECK(active == Approx(12.88e9).epsilon(1e-3));
  const double norms = (2 * layers + 1) * h;
  CHECK(model_flops(graph_of(model)) ==
        Approx(6 * tokens * (active - table - norms) + 12 * h * layers * pairs).epsilon(1e-12));
}

TEST_CASE("experts of one layer are one tensor, published one by one", "[models][importers]") {
  const Graph graph = graph_of(
      ours(R"({"family": "mixtral", "hidden": 16, "layers": 2, "heads": 4, "ffn": 24, "vocab": 9,
               "experts": 12, "expert_capacity_factor": 1.5})"));
  const Parameter& w1 = parameter(graph, "model.layers.1.block_sparse_moe.experts.*.w1.weight");
  CHECK(w1.global_shape == Shape{12, 24, 16});
  CHECK(w1.of_experts);
  CHECK(parameter(graph, "model.layers.0.block_sparse_moe.gate.weight").global_shape ==
        Shape{12, 16});
  const auto published = published_tensors(w1.name, w1.global_shape);
  REQUIRE(published.size() == 12);
  CHECK(published[11].name == "model.layers.1.block_sparse_moe.experts.11.w1.weight");
  CHECK(published[11].shape == Shape{24, 16});
  CHECK(published[11].begin == 11 * 24 * 16);
  CHECK(published_tensors("lm_head.weight", {9, 16}).front().name == "lm_head.weight");
  for (const Node& node : graph.nodes)  // 1.5 * 16 tokens * 2 / 12
    if (node.op == Op::route) CHECK(node.attributes.expert_capacity == 4);
}

TEST_CASE("every model of the zoo has a sound graph", "[models][importers]") {
  const auto names = zoo_names();
  CHECK(names.size() >= 16);
  for (const std::string& name : names) {
    CAPTURE(name);
    const Model model = load_model(name, source);
    CHECK(model.name == name);
    const Graph graph = graph_of(model);
    verify(graph, "build_graph");
    // Units: an embedding, the blocks, a final norm unless the norms come after, a head.
    // A decoder has an embedding and blocks of its own, which attend twice.
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
  // Tables and logits are narrower than the layers between them.
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
  // 6 FLOPs of a token for each weight of a product, and 12 h for each pair of tokens and layer;
  // the patches are all tokens but one, and the head sees that one.
  const double h = 768, tokens = 2 * 197, layers = 12;
  CHECK(model_flops(graph) ==
        Approx(6 * tokens * layers * 12 * h * h + 12 * h * layers * 2 * 197 * 197 +
               6 * 2 * (196 * h * h + 1000 * h))
            .epsilon(1e-12));
  CHECK(error_with("vit-base-patch16-224", "tie_word_embeddings", true) == "");  // it has no words
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
  // RoBERTa's first two positions are the padding's.
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
  // There are as many classes as tokens. The table is padded, the head is not.
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
  CHECK(parameter(bert, "classifier.bias").global_shape == Shape{2});  // two unless it says more
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

TEST_CASE("our JSON and its defaults", "[models][importers]") {
  const Model gpt = ours(
      R"({"family": "gpt", "hidden": 64, "layers": 2, "heads": 4, "vocab": 100, "positions": 32})");
  CHECK(gpt.kv_heads == 4);
  CHECK(gpt.ffn == 256);
  CHECK(gpt.tied_embeddings);
  CHECK(gpt.head == Head::lm);
  const Model llama = ours(
      R"({"family": "llama", "hidden": 64, "layers": 2, "heads": 4, "kv_heads": 2, "ffn": 96,
          "vocab": 100})");
  CHECK_FALSE(llama.tied_embeddings);
  CHECK(llama.gated_ffn);
  // Per layer 2 h^2 (q, o) + h^2 (k, v of half the heads) + 3 h f + 2 h; 2 V h + h outside.
  CHECK(parameter_count(graph_of(llama)) ==
        2 * (3 * 64 * 64 + 3 * 64 * 96 + 2 * 64) + 2 * 100 * 64 + 64);
}

TEST_CASE("the models of the published measurements can be built", "[models][importers]") {
  int built = 0;
  const std::function<void(const json&)> walk = [&](const json& value) {
    if (value.is_object() && value.contains("family")) {
      verify(graph_of(read_model(Fields(value, "evidence"))), "build_graph");
      ++built;
      return;
    }
    if (value.is_structured())
      for (const json& item : value) walk(item);
  };
  const std::filesystem::path folder = source + "/scenarios/evidence";
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".json")
      walk(parse_json(read_file(entry.path().string()), entry.path().string()));
  CHECK(built > 900);
}

TEST_CASE("a model that cannot be found is named with its neighbours", "[models][importers]") {
  const auto load = [](const std::string& ref) {
    return message_of([&] { load_model(ref, "/nowhere"); });
  };
  CHECK(load("gpt2-xxl")
            .starts_with("unknown model 'gpt2-xxl'; did you mean 'gpt2-xl'? "
                         "`meshwright list models` names those "));
  CHECK(load("") != "");
  CHECK(load("m/config.json") == "/nowhere/m/config.json: no such file");
  CHECK(load("m.onnx") == "/nowhere/m.onnx: no such file");
}

TEST_CASE("a config.json is called like its folder", "[models][importers]") {
  const TestFolder folder;
  const std::string path = folder.file("config.json");
  std::filesystem::copy_file(
      std::string(MESHWRIGHT_SOURCE_DIR) + "/scenarios/models/llama-1b/config.json", path);
  const std::string name = std::filesystem::path(path).parent_path().filename().string();
  CHECK(load_model("config.json", folder.file("")).name == name);
  CHECK(load_model("./config.json", folder.file("")).name == name);
  CHECK(load_model("../" + name + "/config.json", folder.file("")).name == name);
}

TEST_CASE("errors of our JSON", "[models][importers]") {
  const auto error = [](const std::string& changed) {
    json model = json::parse(
        R"({"family": "gpt", "hidden": 64, "layers": 2, "heads": 4, "vocab": 9, "positions": 8})");
    model.merge_patch(json::parse(changed));
    return message_of([&] { read_model(Fields(model, "job.json", "/model")); });
  };
  CHECK(error("{}") == "");
  CHECK(error(R"({"hiden": 64})") == "job.json: /model/hiden: unknown key; did you mean 'hidden'?");
  CHECK(error(R"({"heads": 5})") ==
        "job.json: /model/heads: 5 heads do not divide the hidden size 64; use a number that does");
  CHECK(error(R"({"kv_heads": 3})") ==
        "job.json: /model/kv_heads: 3 does not divide the 4 heads; use 1, 2 or 4");
  CHECK(error(R"({"layers": 0})") == "job.json: /model/layers: 0 is out of range; use 1 to 10000");
  CHECK(error(R"({"positions": null})") ==
        "job.json: /model/positions: missing; the position table needs it (an integer)");
  CHECK(error(R"({"vocab": null})") ==
        "job.json: /model/vocab: missing; it is required (an integer)");
  CHECK(error(R"({"head": "mlm"})") ==
        "job.json: /model/head: this family sees earlier tokens only; use 'lm', 'qa' or "
        "'classification'");
  CHECK(error(R"({"head": "classification"})") ==
        "job.json: /model/classes: missing; it is required (an integer)");
  CHECK(error(R"({"head": "classification", "classes": 1})") ==
        "job.json: /model/classes: 1 classes are out of range; use 2 to 65536");
  CHECK(error(R"({"classes": 3})").starts_with("job.json: /model/classes: unknown key; known: "));
  CHECK(error(R"({"family": "mixtral", "experts": 4, "head": "classification", "classes": 3})") ==
        "job.json: /model/head: not supported yet: the class of a text from a model with experts, "
        "whose balancing loss would count the padding; use a dense model");
  CHECK(error(R"({"family": "bloom", "kv_heads": 2})") ==
        "job.json: /model/kv_heads: this family packs queries, keys and values by head; use 4 or "
        "leave it out");
  CHECK(error(R"({"experts": 8})").starts_with("job.json: /model/experts: unknown key; known: "));
  CHECK(error(R"({"family": "mixtral", "experts": 4})") == "");
  CHECK(error(R"({"family": "mixtral", "experts": 513})") ==
        "job.json: /model/experts: 513 is out of range; use 1 to 512");
  CHECK(error(R"({"family": "mixtral", "experts": 4, "experts_per_token": 5})") ==
        "job.json: /model/experts_per_token: 5 is out of range; use 1 to 4");
  CHECK(error(R"({"family": "mixtral", "expert_capacity_factor": 0})") ==
        "job.json: /model/expert_capacity_factor: must be above 0 and at most 512; experts / "
        "experts_per_token and more drop no token");
  CHECK(error(R"({"family": "gtp"})") ==
        "job.json: /model/family: unknown family 'gtp'; known: gpt, llama, bert, mpt, bloom, "
        "mixtral, seq2seq and vit");
}

TEST_CASE("a config.json that asks for what is not built", "[models][importers]") {
  CHECK(error_with("gpt2", "summary_type", "cls_index") == "");
  CHECK(error_with("gpt2", "model_type", "xglm") ==
        "config.json: /model_type: unknown model_type 'xglm'; known: gpt2, gpt_neox, gpt_neo, "
        "gptj, llama, mistral, mixtral, qwen2, qwen3, qwen3_moe, qwen2_moe, olmoe, granitemoe, "
        "gpt_oss, glm4_moe, llama4_text, llama4, deepseek_v2, deepseek_v3, starcoder2, stablelm, "
        "opt, phi3, "
        "gemma, gemma2, gemma3_text, olmo2, nemotron, falcon, gpt_bigcode, cohere, internlm2, "
        "bert, roberta, "
        "camembert, "
        "xlm-roberta, distilbert, albert, bart, t5 and vit");
  CHECK(
      error_with("gemma-2b", "model_type", "cohere2")
          .starts_with("config.json: /model_type: 'cohere2' needs blocks without rotary positions "
                       "among those with windows, which meshwright lacks; known: gpt2, "));
  CHECK(error_with("qwen1.5-moe-a2.7b", "use_sliding_window", true) ==
        "config.json: /use_sliding_window: true: windows are not built for it; set it to false");
  CHECK(error_with("granite-3.0-1b-a400m", "residual_multiplier", 0) ==
        "config.json: /residual_multiplier: must be above 0");
  CHECK(error_with("gpt-oss-20b", "swiglu_alpha", 2.0) ==
        "config.json: /swiglu_alpha: 2.0: another gain of the sigmoid is not built; set it to "
        "1.702");
  CHECK(error_with("gpt-oss-20b", "layer_types", json::array({"full_attention"})) ==
        "config.json: /layer_types: names 1 blocks, but the model has 24; name each");
  CHECK(error_with("gemma-3-1b", "rope_parameters",
                   {{"full_attention", {{"rope_type", "default"}}},
                    {"sliding_attention", {{"rope_type", "linear"}}}}) ==
        "config.json: /rope_parameters/sliding_attention/rope_type: rotary positions of blocks "
        "with a window are not scaled; use default");
  CHECK(error_with("gpt-neo-125m", "attention_types", {{{"global", "global", "local"}, 4}}) ==
        "config.json: /attention_types: 'global' and 'local' in turn, or 'global' everywhere, are "
        "built; use one of them");
  CHECK(error_with("gpt-neo-125m", "attention_types", {{{"global", "local"}, 4}}) ==
        "config.json: /attention_types: names 8 blocks, but the model has 12; name each");
  CHECK(error_with("gpt-neo-125m", "attention_types", "local") ==
        "config.json: /attention_types: must be a list of [[kinds of blocks], times]");
  CHECK(error_with("gpt-neo-125m", "window_size", 0) ==
        "config.json: /window_size: 0 must be 1 or more");
  CHECK(error_with("gpt-neo-125m", "attention_types", {{{"global"}, 12}}) == "");
  CHECK(error_with("gpt2", "activation_function", "relu") ==
        "config.json: /activation_function: unknown activation 'relu'; known: gelu, gelu_python, "
        "gelu_new, gelu_fast and gelu_pytorch_tanh");
  CHECK(error_with("gpt2", "scale_attn_by_inverse_layer_idx", true) ==
        "config.json: /scale_attn_by_inverse_layer_idx: true: scaling by layer is not built; set "
        "it to false");
  CHECK(error_with("llama-2-7b", "rope_scaling", {{"type", "longrope"}, {"factor", 4}}) ==
        "config.json: /rope_scaling/type: scaling 'longrope' of rotary positions is not built; "
        "known: default, linear, llama3 and yarn. It changes angles, not costs: without "
        "rope_scaling the model is planned and predicted the same");
  CHECK(error_with("deepseek-v3", "n_group", 7) ==
        "config.json: /n_group: 7 must divide the 256 experts, and be at most 32");
  CHECK(error_with("deepseek-v3", "topk_group", 9) ==
        "config.json: /topk_group: 9 of 8 groups of 32 experts: a token needs 8 to choose from");
  CHECK(error_with("deepseek-v3", "num_key_value_heads", 64) ==
        "config.json: /num_key_value_heads: latent attention has as many as there are heads");
  CHECK(error_with("deepseek-v3", "v_head_dim", 256) ==
        "config.json: /v_head_dim: 256 is wider than a head's queries, 192; that is not built");
  CHECK(error_with("deepseek-v3", "router_aux_loss_coef", 0.001) ==
        "config.json: /router_aux_loss_coef: a balancing loss of sigmoid scores is not built; set "
        "it to 0");
  CHECK(error_with("deepseek-v3", "first_k_dense_replace", 61) ==
        "config.json: /first_k_dense_replace: no block has experts; describe a model without them");
  CHECK(error_with("deepseek-v2-lite", "norm_topk_prob", true) ==
        "config.json: /norm_topk_prob: true: weights that are renormalised are not built for it; "
        "set it to false");
  CHECK(error_with("qwen3-30b-a3b", "decoder_sparse_step", 0) ==
        "config.json: /decoder_sparse_step: 0 must be 1 or more");
  CHECK(error_with("llama-2-7b", "num_key_value_heads", 5).find("does not divide the 32 heads") !=
        std::string::npos);
  CHECK(error_with("bert-base", "position_embedding_type", "relative_key") ==
        "config.json: /position_embedding_type: \"relative_key\": relative positions are not "
        "built; set it to \"absolute\"");
  CHECK(error_with("gpt-j-6b", "rotary_dim", 7) ==
        "config.json: /rotary_dim: rotating 7 of a head's 256 numbers is impossible; an even "
        "number of them is needed");
  CHECK(error_with("llama-2-7b", "hidden_size", "4096") ==
        "config.json: /hidden_size: expected an integer, found \"4096\"");
}

TEST_CASE("decoders that ask for what is not built", "[models][importers]") {
  CHECK(error_with("stablelm-2-1_6b", "qk_layernorm", true) ==
        "config.json: /qk_layernorm: true: norms of heads with weights of their own are not built; "
        "set it to false");
  CHECK(error_with("opt-1.3b", "do_layer_norm_before", false) ==
        "config.json: /do_layer_norm_before: false: norms after the residual sum are not built for "
        "OPT; set it to true");
  CHECK(error_with("opt-1.3b", "word_embed_proj_dim", 512) ==
        "config.json: /word_embed_proj_dim: 512 is not hidden_size 2048: tables of another width "
        "are not built for OPT");
  CHECK(error_with("falcon-7b", "alibi", true) ==
        "config.json: /alibi: true: ALiBi that is added before scores are scaled is not built; set "
        "it to false");
  CHECK(error_with("falcon-40b", "num_kv_heads", 5) ==
        "config.json: /num_kv_heads: 5 does not divide the 128 heads; use a number that does");
  CHECK(error_with("falcon-7b", "num_ln_in_parallel_attn", 2) ==
        "config.json: /num_ln_in_parallel_attn: 2: two norms of a block's input come with "
        "new_decoder_architecture");
  CHECK(error_with("gemma-2-2b", "attn_logit_softcapping", 0) ==
        "config.json: /attn_logit_softcapping: a soft cap must be above 0; null: there is none");
  CHECK(error_with("gemma-2-2b", "query_pre_attn_scalar", 0) ==
        "config.json: /query_pre_attn_scalar: 0 must be 1 or more");
  CHECK(error_with("gemma-2-2b", "hidden_activation", "gelu") ==
        "config.json: /hidden_activation: unknown activation 'gelu'; known: gelu_pytorch_tanh");
  CHECK(error_with("gemma-2-2b", "use_bidirectional_attention", true) ==
        "config.json: /use_bidirectional_attention: true: Gemma that sees later tokens is not "
        "built; set it to false");
  CHECK(
      error_with("gemma-2-2b", "layer_types", std::vector<std::string>(26, "sliding_attention")) ==
      "config.json: /layer_types: block 1 is 'sliding_attention', the windows that the other keys "
      "give make it 'full_attention'; other orders are not built");
  CHECK(error_with("minitron-4b-base", "hidden_act", "gelu") ==
        "config.json: /hidden_act: unknown activation 'gelu'; known: relu2");
  CHECK(error_with("mistral-7b-v0.1", "sliding_window", 0) ==
        "config.json: /sliding_window: 0 must be 1 or more");
  CHECK(error_with("qwen2.5-7b", "layer_types", {"full_attention"}) ==
        "config.json: /layer_types: names 1 blocks, but the model has 28; name each");
  CHECK(
      error_with("qwen2.5-7b", "layer_types", std::vector<std::string>(28, "sliding_attention")) ==
      "config.json: /layer_types: block 0 is 'sliding_attention', the windows that the other keys "
      "give make it 'full_attention'; other orders are not built");
  const json scaling = {{"rope_type", "llama3"},
                        {"factor", 8},
                        {"low_freq_factor", 5},
                        {"high_freq_factor", 4},
                        {"original_max_position_embeddings", 8192}};
  CHECK(error_with("llama-3-8b", "rope_scaling", scaling) ==
        "config.json: /rope_scaling/high_freq_factor: must not be below low_freq_factor");
  CHECK(error_with("llama-3-8b", "rope_scaling", {{"type", "linear"}, {"factor", 0}}) ==
        "config.json: /rope_scaling/factor: must be above 0");
}

namespace {

std::vector<int> windows_of(const Model& model) {
  std::vector<int> windows;
  for (const Node& node : graph_of(model).nodes)
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
  // 128 heads in 8 groups of 16, each with a key and a value.
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
  // [in, out], columns in turn.
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
  // The sequence fits into a chunk, and is shorter than what the queries grow with.
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
  // Half of the gate's and the other's columns, [in, out].
  const Graph graph = graph_of(scout);
  const Parameter& up = parameter(graph, "model.layers.2.feed_forward.experts.up_proj");
  REQUIRE(up.part);
  CHECK(up.part->whole == "model.layers.2.feed_forward.experts.gate_up_proj");
  CHECK(shape_of_whole(*up.part, up.global_shape) == Shape{16, 5120, 16384});
  CHECK(runs_of(*up.part, up.global_shape)[1].of_whole == 8192 + 1);
}

TEST_CASE("Llama 4's config.json", "[models][importers]") {
  const std::string name = "llama-4-scout-17b-16e";
  CHECK(error_with(name, "num_experts_per_tok", 2) ==
        "config.json: /num_experts_per_tok: 2: several experts that read weighed tokens are not "
        "built; set it to 1");
  CHECK(error_with(name, "attention_chunk_size", nullptr) ==
        "config.json: /attention_chunk_size: null: blocks with rotary positions see chunks; give "
        "their size");
  CHECK(error_with(name, "no_rope_layers", {1, 0}) ==
        "config.json: /no_rope_layers: names 2 blocks, but the model has 48; name each");
  CHECK(error_with(name, "layer_types", std::vector<std::string>(48, "full_attention")) ==
        "config.json: /layer_types: block 0 is 'full_attention', no_rope_layers makes it "
        "'chunked_attention'; other orders are not built");
  CHECK(error_with(name, "moe_layers", {48}) ==
        "config.json: /moe_layers: 48 is no block of the model, which has 48");
  CHECK(error_with(name, "moe_layers", json::array()) ==
        "config.json: /moe_layers: no block has experts; describe a model without them");
  CHECK(error_with(name, "floor_scale", 0) == "config.json: /floor_scale: 0 must be 1 or more");
  CHECK(error_with(name, "rope_scaling", {{"rope_type", "yarn"}, {"factor", 2}}) ==
        "config.json: /rope_scaling/rope_type: 'yarn' beside blocks without rotary positions is "
        "not built; use llama3");
  CHECK(error_with(name, "model_type", "llama4") ==
        "config.json: /text_config: missing; it is required (an object)");
  json config = config_of(name);
  config["attn_temperature_tuning"] = 4;  // as first published
  const Model model = theirs(config);
  CHECK(model.temperature == 0.1);
  Model of_images = theirs({{"model_type", "llama4"}, {"text_config", config}});
  CHECK(of_images.name == "llama4");
  of_images.name = model.name;
  CHECK(of_images == model);
  config["attn_temperature_tuning"] = 0;
  CHECK(theirs(config).temperature == 0);
  config["model_type"] = "llama";
  CHECK(message_of([&] {
          theirs({{"model_type", "llama4"}, {"text_config", config}});
        }) == "config.json: /text_config/model_type: must be 'llama4_text'");
}

TEST_CASE("a config.json is honoured", "[models][importers]") {
  json config = config_of("gpt2");
  config["n_inner"] = 1000;
  config["activation_function"] = "gelu";
  const Model gpt = theirs(config);
  CHECK(gpt.ffn == 1000);
  CHECK(gpt.activation == Activation::gelu);
  config = config_of("llama-2-7b");
  config["attention_bias"] = true;
  config["head_dim"] = 64;
  config["tie_word_embeddings"] = true;
  config.erase("rope_theta");
  config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 5e5}};
  const Graph llama = graph_of(theirs(config));
  CHECK(parameter(llama, "model.layers.0.self_attn.q_proj.weight").global_shape ==
        Shape{32 * 64, 4096});
  CHECK(has_parameter(llama, "model.layers.0.self_attn.o_proj.bias"));
  CHECK_FALSE(has_parameter(llama, "lm_head.weight"));
  for (const Node& node : llama.nodes)
    if (node.op == Op::rope) CHECK(node.attributes.rotary_base == 5e5);
  config = config_of("gpt-neox-20b");
  config["use_parallel_residual"] = false;
  CHECK_FALSE(theirs(config).parallel_residual);
  config = config_of("bert-base");
  config["architectures"] = {"BertForQuestionAnswering"};
  CHECK(theirs(config).head == Head::qa);
}
