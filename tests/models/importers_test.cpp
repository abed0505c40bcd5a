// Tests that descriptions of models are read correctly, or rejected.
#include <filesystem>
#include <functional>

#include "tests/models/imported.h"
#include "tests/test_folder.h"

using namespace meshwright::tests;
using nlohmann::json;

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
  // A layer has 2 h^2 (q, o) + h^2 (k, v of half the heads) + 3 h f + 2 h parameters. Outside of
  // the layers, there are two tables of V h and a norm of h.
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
        "config.json: /hidden_size: expected an integer, found \"4096\"; write it without quotes");
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
