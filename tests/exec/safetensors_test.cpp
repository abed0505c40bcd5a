// Tests Hugging Face's safetensors: files that transformers wrote are read, and written again to
// the same bytes.
#include "exec/checkpoint/safetensors.h"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

#include "exec/checkpoint/folder.h"
#include "exec/checkpoint/huggingface.h"
#include "exec/core/eight_bits.h"
#include "models/architectures/huggingface_config.h"
#include "models/core/error.h"
#include "models/program/graph/experts.h"
#include "tests/catch.h"
#include "tests/golden/published_golden.h"
#include "tests/message_of.h"
#include "tests/test_folder.h"

using namespace meshwright::tests;

namespace {

const std::string golden_root = std::string(MESHWRIGHT_SOURCE_DIR) + "/tests/golden/";
const std::vector<std::string> saved = {  // written by transformers
    "gpt2",       "gpt_neo",     "llama",    "bert",        "mixtral",     "distilbert",
    "albert",     "vit",         "t5",       "opt",         "phi3",        "gemma",
    "olmo2",      "gpt_bigcode", "falcon",   "nemotron",    "falcon-40b",  "gemma2",
    "qwen3_moe",  "olmoe",       "glm4_moe", "deepseek_v2", "deepseek_v3", "qwen2_moe",
    "granitemoe", "gpt_oss",     "gemma3",   "llama4"};

std::vector<Parameter> parameters_of(const Model& model) {
  Training training;
  training.micro_batch = 1;
  training.sequence_length = 8;
  training.predicted_positions = 2;
  return build_graph(model, training).parameters;
}

std::map<std::string, Shape> shapes_of(const Model& model) {
  std::map<std::string, Shape> shapes;
  for (const Parameter& parameter : parameters_of(model))
    shapes[parameter.name] = parameter.global_shape;
  return shapes;
}

PublishedParts parts_of(const Model& model) {
  PublishedParts parts;
  for (const Parameter& parameter : parameters_of(model))
    if (parameter.part) parts[parameter.name] = *parameter.part;
  return parts;
}

std::string file_of(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + data;
}

}  // namespace

TEST_CASE("weights that transformers saved are read as they are", "[safetensors]") {
  for (const std::string& name : saved) {
    INFO(name);
    const Golden golden = load_golden(golden_root + "transformers/" + name);
    const Safetensors stored(golden_root + "safetensors/" + name);
    std::set<std::string> read;
    // The golden test runs these values to transformers' logits and loss.
    for (const Parameter& parameter :
         parameters_of(load_model(golden_root + "safetensors/" + name, "/"))) {
      const std::string published = published_name(parameter);
      const Shape shape = parameter.part ? shape_of_whole(*parameter.part, parameter.global_shape)
                                         : parameter.global_shape;
      for (const PublishedTensor& part : published_tensors(published, shape)) {
        const auto first = golden.tensor("weight/" + published).values.begin() + part.begin;
        CHECK(stored.read(stored.find(part.name), part.shape) ==
              std::vector<float>(first, first + part.shape.elements()));
        read.insert(part.name);
      }
    }
    CHECK(read.size() == stored.names().size());
  }
}

TEST_CASE("imported and exported, a model has the bytes that transformers wrote", "[safetensors]") {
  for (const std::string& name : saved) {
    INFO(name);
    const std::string golden = golden_root + "safetensors/" + name;
    const TestFolder folder;
    const Model model = load_model(golden, "/");
    const auto shapes = shapes_of(model);
    const PublishedParts parts = parts_of(model);
    CHECK(import_weights(Safetensors(golden), shapes, {}, folder.path(), parts).empty());
    const Checkpoint imported(step_folder(folder.path(), 0));
    imported.check_holds(shapes);
    export_weights(imported, shapes, folder.path() + "/model.safetensors", parts);
    CHECK(content_of(folder.path() + "/model.safetensors") ==
          content_of(golden + "/model.safetensors"));
  }
}

// This layer follows the model's own and has the names of DeepSeek's files. Here eh_proj is in two
// parts.
TEST_CASE("weights of multi-token prediction are imported and exported to the same bytes",
          "[safetensors][mtp]") {
  const std::string stored = golden_root + "safetensors/deepseek_v3-mtp";
  const Model model = load_model(stored, "/");
  Training training;
  training.sequence_length = 8;
  std::map<std::string, Shape> shapes;
  PublishedParts parts;
  for (const int layers : {0, 1}) {
    training.mtp_layers = layers;
    for (const Parameter& parameter : build_graph(model, training).parameters) {
      shapes[parameter.name] = parameter.global_shape;
      if (parameter.part) parts[parameter.name] = *parameter.part;
    }
    const TestFolder folder;
    const std::vector<std::string> unused =
        import_weights(Safetensors(stored), shapes, {}, folder.path(), parts);
    CHECK(unused.empty() == (layers == 1));
    for (const std::string& name : unused) CHECK(name.starts_with("model.layers.3."));
    export_weights(Checkpoint(step_folder(folder.path(), 0)), shapes,
                   folder.path() + "/model.safetensors", parts);
    CHECK((content_of(folder.path() + "/model.safetensors") ==
           content_of(stored + "/model.safetensors")) == (layers == 1));
  }
}

TEST_CASE("a written config.json is read as the same model", "[safetensors]") {
  for (const std::string& folder : golden_folders()) {
    INFO(folder);
    const Model model = load_model(folder, "/");
    const Model back = read_huggingface(Fields(huggingface_config(model), "written"));
    CHECK(back.hidden == model.hidden);
    CHECK(back.embedding == model.embedding);
    CHECK(back.image_size == model.image_size);
    CHECK(back.patch_size == model.patch_size);
    CHECK(back.channels == model.channels);
    CHECK(back.decoder_start == model.decoder_start);
    CHECK(back.layers == model.layers);
    CHECK(back.heads == model.heads);
    CHECK(back.kv_heads == model.kv_heads);
    CHECK(back.ffn == model.ffn);
    CHECK(back.positions == model.positions);
    CHECK(back.vocabulary == model.vocabulary);
    CHECK(back.head_dim == model.head_dim);
    CHECK(back.head == model.head);
    CHECK(back.classes == model.classes);
    CHECK(back.pad_token == model.pad_token);
    CHECK(back.tied_embeddings == model.tied_embeddings);
    CHECK(back.biases == model.biases);
    CHECK(back.norm_bias == model.norm_bias);
    CHECK(back.attention_bias == model.attention_bias);
    CHECK(back.attention_out_bias == model.attention_out_bias);
    CHECK(back.one_norm == model.one_norm);
    CHECK(back.one_plus_norms == model.one_plus_norms);
    CHECK(back.query_key_norm == model.query_key_norm);
    CHECK(back.embedding_scale == model.embedding_scale);
    CHECK(back.logit_scale == model.logit_scale);
    CHECK(back.score_width == model.score_width);
    CHECK(back.score_cap == model.score_cap);
    CHECK(back.logit_cap == model.logit_cap);
    CHECK(back.rotary_factor == model.rotary_factor);
    CHECK(back.rotary_low == model.rotary_low);
    CHECK(back.rotary_high == model.rotary_high);
    CHECK(back.rotary_original == model.rotary_original);
    CHECK(back.rotary_yarn == model.rotary_yarn);
    CHECK(back.rotary_dim == model.rotary_dim);
    CHECK(back.rotary_interleaved == model.rotary_interleaved);
    CHECK(back.score_factor == Approx(model.score_factor).epsilon(1e-12));
    CHECK(back.q_lora_rank == model.q_lora_rank);
    CHECK(back.kv_lora_rank == model.kv_lora_rank);
    CHECK(back.v_head_dim == model.v_head_dim);
    CHECK(back.dense_ffn == model.dense_ffn);
    CHECK(back.shared_ffn == model.shared_ffn);
    CHECK(back.sigmoid_scores == model.sigmoid_scores);
    CHECK(back.expert_bias == model.expert_bias);
    CHECK(back.expert_groups == model.expert_groups);
    CHECK(back.groups_per_token == model.groups_per_token);
    CHECK(back.groups_by_two == model.groups_by_two);
    CHECK(back.expert_weight_scale == model.expert_weight_scale);
    CHECK(back.expert_weights_of_all == model.expert_weights_of_all);
    for (int block = 0; block < model.layers; ++block)
      CHECK(back.has_experts(block) == model.has_experts(block));
    for (int block = 0; block < model.layers; ++block)
      CHECK(back.window_of(block) == model.window_of(block));
    for (int block = 0; block < model.layers; ++block)
      CHECK(back.has_rotary(block) == model.has_rotary(block));
    CHECK(back.attention_chunk == model.attention_chunk);
    CHECK(back.temperature == model.temperature);
    CHECK(back.temperature_floor == model.temperature_floor);
    CHECK(back.weighed_inputs == model.weighed_inputs);
    CHECK(back.activation == model.activation);
    CHECK(back.activation_dropout == model.activation_dropout);
    CHECK(back.gated_ffn == model.gated_ffn);
    CHECK(back.local_window == model.local_window);
    CHECK(back.relative_buckets == model.relative_buckets);
    CHECK(back.relative_distance == model.relative_distance);
    CHECK(back.norm_epsilon == model.norm_epsilon);
    CHECK(back.rotary_base == model.rotary_base);
    CHECK(back.rotary_dim == model.rotary_dim);
    CHECK(back.parallel_residual == model.parallel_residual);
    CHECK(back.token_types == model.token_types);
    CHECK(back.position_offset == model.position_offset);
    CHECK(back.experts == model.experts);
    CHECK(back.experts_per_token == model.experts_per_token);
    CHECK(back.expert_capacity_factor == model.expert_capacity_factor);
    CHECK(back.router_aux_loss_coef == model.router_aux_loss_coef);
    CHECK(back.architecture == model.architecture);
  }
}

// Returns the activations of all families, parsed from the message that rejects an unknown word.
std::vector<std::string> activations_in(const std::string& message) {
  std::vector<std::string> words;
  const std::regex word("[a-z_0-9]+");
  std::string known = message.substr(message.find("known: ") + 7);
  for (std::sregex_iterator found(known.begin(), known.end(), word), end; found != end; ++found)
    if (found->str() != "and") words.push_back(found->str());
  return words;
}

TEST_CASE("a written config.json has the activation that was read", "[safetensors]") {
  int tried = 0;
  for (const std::string& folder : golden_folders()) {
    const Model model = load_model(folder, "/");
    if (model.architecture == Architecture::mpt) continue;
    nlohmann::json config = huggingface_config(model);
    for (const char* key :
         {"hidden_act", "hidden_activation", "activation_function", "activation"}) {
      if (!config.contains(key)) continue;
      config[key] = "sine";
      const std::string message = message_of([&] { read_huggingface(Fields(config, "config")); });
      for (const std::string& word : activations_in(message)) {
        INFO(folder << ": " << word);
        config[key] = word;
        const Model read = read_huggingface(Fields(config, "config"));
        CHECK(read_huggingface(Fields(huggingface_config(read), "written")) == read);
        ++tried;
      }
    }
  }
  CHECK(tried > 80);
}

TEST_CASE("types, older names and several files", "[safetensors]") {
  const TestFolder folder;
  // The f16 numbers are 1, -2, the smallest subnormal 2^-24 and 65504. The bf16 numbers are 1, -2
  // and 3.140625 (0x4049).
  folder.file("a.safetensors",
              file_of(R"({"wte.weight":{"dtype":"F16","shape":[2,2],"data_offsets":[0,8]}})",
                      std::string("\x00\x3c\x00\xc0\x01\x00\xff\x7b", 8)));
  folder.file("b.safetensors",
              file_of(R"({"x.LayerNorm.gamma":{"dtype":"BF16","shape":[3],"data_offsets":[2,8]},
                          "mask":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]},
                          "language_model.model.z.weight":
                              {"dtype":"BF16","shape":[1],"data_offsets":[8,10]}})",
                      std::string("\x01\x01\x80\x3f\x00\xc0\x49\x40\x80\x3f", 10)));
  folder.file("model.safetensors.index.json", R"({"metadata": {}, "weight_map": {
      "wte.weight": "a.safetensors", "x.LayerNorm.gamma": "b.safetensors", "mask": "b.safetensors",
      "language_model.model.z.weight": "b.safetensors"}})");
  const Safetensors stored(folder.path());
  CHECK(stored.read(stored.find("transformer.wte.weight"), Shape{2, 2}) ==
        std::vector<float>{1, -2, std::ldexp(1.0F, -24), 65504});
  CHECK(stored.read(stored.find("x.LayerNorm.weight"), Shape{3}) ==
        std::vector<float>{1, -2, 3.140625F});
  CHECK(stored.find("y.weight").empty());
  CHECK(stored.find("model.z.weight") == "language_model.model.z.weight");
  CHECK(message_of([&] {
          stored.read("mask", Shape{2});
        }).find("b.safetensors: mask is of type BOOL; known: F32") != std::string::npos);
  CHECK(message_of([&] {
          stored.read("wte.weight", Shape{4});
        }).find("a.safetensors: wte.weight is [2,2], the job's model has it as [4]") !=
        std::string::npos);
  CHECK(message_of([&] {
          import_weights(stored, {{"y", Shape{1}}}, {}, folder.path());
        }) == "has no y, which the job's model has");
  folder.file("model.safetensors.index.json", R"({"weight_map": {"w": "../a.safetensors"}})");
  CHECK(message_of([&] {
          Safetensors other(folder.path());
        }).find("/weight_map/w: is not the name of a file") != std::string::npos);
}

TEST_CASE("experts in MXFP4 are what transformers makes of them", "[safetensors]") {
  const Safetensors stored(golden_root + "safetensors/mxfp4.safetensors");
  CHECK(stored.names() == std::vector<std::string>{"experts.gate_up_proj", "wide"});
  const Shape shape{2, 96, 6};
  CHECK(stored.read("experts.gate_up_proj", shape) == stored.read("wide", shape));
  CHECK(message_of([&] {
          stored.read("experts.gate_up_proj", Shape{2, 6, 96});
        }).ends_with("experts.gate_up_proj is [2,96,6], the job's model has it as [2,6,96]"));
}

TEST_CASE("what is beside other tensors by the names of scales is a tensor", "[safetensors]") {
  const TestFolder folder;
  const auto names = [&](const std::string& header, std::size_t bytes) {
    return Safetensors(folder.file("s.safetensors", file_of(header, std::string(bytes, '\0'))))
        .names();
  };
  CHECK(names(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
              R"("a_scale_inv":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
              8) == std::vector<std::string>{"a", "a_scale_inv"});
  CHECK(names(R"({"a_blocks":{"dtype":"U8","shape":[0,1,1152921504606846976,16],)"
              R"("data_offsets":[0,0]},"a_scales":{"dtype":"U8",)"
              R"("shape":[0,1,1152921504606846976],"data_offsets":[0,0]}})",
              0) == std::vector<std::string>{"a_blocks", "a_scales"});
}

TEST_CASE("FP8 matrices have a scale for each block of 128 x 128", "[safetensors]") {
  const TestFolder folder;
  constexpr std::int64_t rows = 130, columns = 300;
  const float scale[] = {1, 0.5F, 3, -2, 0.125F, 7};
  std::string numbers;
  std::vector<float> expected;
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column) {
      const auto bits = static_cast<std::uint8_t>((7 * row + column) % 127);
      numbers += static_cast<char>(bits);
      expected.push_back(reference_value(bits, Dtype::e4m3) * scale[row / 128 * 3 + column / 128]);
    }
  const std::string scales(reinterpret_cast<const char*>(scale), sizeof scale);
  const auto file = [&](const std::string& shape_of_scales) {
    return folder.file(
        "fp8.safetensors",
        file_of(R"({"m.weight":{"dtype":"F8_E4M3","shape":[130,300],"data_offsets":[0,39000]},)"
                R"("m.weight_scale_inv":{"dtype":"F32","shape":)" +
                    shape_of_scales + R"(,"data_offsets":[39000,39024]}})",
                numbers + scales));
  };
  const Safetensors stored(file("[2,3]"));
  CHECK(stored.names() == std::vector<std::string>{"m.weight"});
  CHECK(stored.read("m.weight", Shape{rows, columns}) == expected);
  const Safetensors otherwise(file("[3,2]"));
  CHECK(message_of([&] {
          otherwise.read("m.weight", Shape{rows, columns});
        })
            .ends_with("m.weight is [130,300] of F8_E4M3 with scales [3,2] of F32; known: matrices "
                       "in F8_E4M3 with a scale in F32 for each 128 x 128 of their elements"));
}

TEST_CASE("hostile safetensors headers are refused with their place", "[safetensors]") {
  const auto refused = [](const std::string& tensor, std::int64_t data_bytes = 24) {
    return message_of(
        [&] { parse_safetensors_header(R"({"w":)" + tensor + "}", data_bytes, "f"); });
  };
  const auto at = [&](const std::string& shape, const std::string& offsets) {
    return refused(R"({"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}");
  };
  CHECK(at("[2,3]", "[0,24]") == "");
  const auto entry = [](const std::string& shape, const std::string& offsets) {
    return R"({"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
  };
  const std::string scalar = entry("[]", "[0,4]"),
                    none = entry("[0, 9223372036854775807]", "[4,4]");
  CHECK(refused(scalar, 4) == "");
  CHECK(refused(scalar + R"(,"x":)" + none, 4) == "");
  CHECK(refused(entry("[]", "[4,8]") + R"(,"x":)" + scalar, 8) == "");
  // Tensors must fill the data: each byte belongs to exactly one of them.
  const auto gap = [](int bytes, int place) {
    return "f: its tensors do not fill its " + std::to_string(bytes) + " bytes of data (see byte " +
           std::to_string(place) + ")";
  };
  CHECK(refused(scalar, 8) == gap(8, 4));
  CHECK(refused(entry("[]", "[4,8]"), 8) == gap(8, 0));
  CHECK(refused(scalar + R"(,"x":)" + scalar, 8) == gap(8, 4));
  for (const std::string offsets : {"[0]", "[-4,20]", "[8,4]", "[0,28]", "[0,24,24]",
                                    "[9223372036854775807,9223372036854775807]"})
    CHECK(at("[2,3]", offsets) ==
          "f: /w/data_offsets: is not a part of the file's 24 bytes of data");
  for (const std::string shape :
       {"[2,2]", "[]", "[9223372036854775807,2]", "[4294967296,4294967296]", "[0]"})
    CHECK(at(shape, "[0,24]").find("f: /w/data_offsets: 24 bytes are not those of") == 0);
  CHECK(at("[-2,-3]", "[0,24]") == "f: /w/shape: -2 is negative");
  CHECK(refused("[]").find("f: /w") == 0);
  CHECK(refused("{}").find("f: /w/dtype: ") == 0);
  const TestFolder folder;
  for (const auto& [name, text] : {std::pair<std::string, std::string>{"short", "1234567"},
                                   {"long", std::string(8, '\xff') + "{}"},
                                   {"none", std::string("\x03\0\0\0\0\0\0\0{}", 10)}}) {
    const std::string path = folder.file(name, text);
    CHECK(message_of([&] { Safetensors other(path); }).find(path + ": ") == 0);
  }
  CHECK(message_of([&] {
          Safetensors other(folder.path());
        }).find("has neither model.safetensors nor") != std::string::npos);
}
