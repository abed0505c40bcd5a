// Tests the numbers of parameters and FLOPs of models. Those of the zoo must be the published ones.
#include "models/program/graph/experts.h"
#include "models/program/graph/graph.h"
#include "tests/models/imported.h"

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
  // Published sizes of these models are rounded, and some leave out the head. The expected numbers
  // were counted in transformers.
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
  CHECK(count("deepseek-v2") == 235'741'434'880);
  CHECK(count("deepseek-v3") == 671'026'404'352);
  // The published number counts the routers' biases too.
  CHECK(count("kimi-k2") == 1'026'408'232'448 - 60 * 384);
  CHECK(count("qwen1.5-moe-a2.7b") == 14'315'784'192);
  CHECK(count("granite-3.0-1b-a400m") == 1'334'628'352);
  CHECK(count("gpt-oss-20b") == 20'914'757'184);
  CHECK(count("gpt-oss-120b") == 116'829'156'672);
  CHECK(count("gemma-3-1b") == 999'885'952);
  CHECK(count("gemma-3-4b") == 3'880'263'168);
  CHECK(count("gemma-3-12b") == 11'766'034'176);
  CHECK(count("gemma-3-27b") == 27'009'346'304);
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
  // GPT-3 has 12 h^2 + 13 h parameters per layer, and V h + P h + 2 h outside of the layers.
  const std::int64_t h = 12288;
  CHECK(count("gpt3-175b") == 96 * (12 * h * h + 13 * h) + (50257 + 2048) * h + 2 * h);
  // BERT 10B has 4 h^2 + 2 h f + 9 h + f parameters per layer, (V + 512 + 2) h + 2 h in the
  // embeddings, and in the head h^2 + h, a norm of 2 h and V biases.
  const std::int64_t b = 2560, f = 10240, v = 32008;
  CHECK(count("bert-10b") ==
        127 * (4 * b * b + 2 * b * f + 9 * b + f) + (v + 514) * b + 2 * b + b * b + 3 * b + v);
  // MPT-7B has no biases: 12 h^2 + 2 h parameters per layer, and V h + h outside of the layers. The
  // published number is 6,649,286,656.
  const Model mpt = ours(
      R"({"family": "mpt", "hidden": 4096, "layers": 32, "heads": 32, "vocab": 50432,
          "positions": 2048})");
  CHECK(parameter_count(graph_of(mpt)) == 6'649'286'656);
  // BLOOM-560M has 559,214,592 parameters, as published.
  const Model bloom =
      ours(R"({"family": "bloom", "hidden": 1024, "layers": 24, "heads": 16, "vocab": 250880})");
  CHECK(parameter_count(graph_of(bloom)) == 559'214'592);
}

// The expected number is that of the published files' layer 61 without its copies of the table and
// of the head: a block of 11,507,286,016 parameters, three norms of 7168, and a matrix of 7168 x
// 14336.
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

// 12.88 billion parameters of Mixtral are active for a token. Each of them that is in a matmul,
// which the token table is not, takes 6 FLOPs. Each pair of tokens takes 12 h FLOPs per layer
// without regard to the mask: 4 h forward, and three times that with the gradients.
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
  for (const Node& node : graph.nodes)  // the expected capacity is 1.5 * 16 tokens * 2 / 12
    if (node.op == Op::route) CHECK(node.attributes.expert_capacity == 4);
}
