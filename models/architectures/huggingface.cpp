// Reads and writes a config.json of Hugging Face by the rows of its architecture (config_file.h).
// Most keys of a file are about generating text or about its origin, and are ignored. A key is
// rejected if its value would need a model that cannot be built.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/architectures/families/config_keys.h"
#include "models/architectures/huggingface_config.h"
#include "models/architectures/huggingface_head.h"
#include "models/architectures/huggingface_rotary.h"
#include "models/architectures/unbuilt_types.h"
#include "models/core/error.h"
#include "models/core/json.h"
#include "models/core/names_in.h"

namespace meshwright::architectures {

namespace {

struct ModelType {
  std::string name;
  Architecture architecture;
  const ConfigFile* file;
};

// Returns all model types that can be read. If successive architectures have the same name, the
// first one reads it.
std::vector<ModelType> model_types() {
  std::vector<ModelType> types;
  for (const auto& [architecture, row] : all_architectures) {
    const bool is_known = !types.empty() && types.back().name == row.name;
    if (row.config.classes.generator.empty() || is_known) continue;
    types.push_back({std::string(row.name), architecture, &row.config});
    for (const ConfigFile& other : row.other_configs)
      types.push_back({std::string(other.model_type), architecture, &other});
  }
  return types;
}

void check_fixed(Fields& fields, const ConfigFile& file) {
  for (const FixedKey& row : file.fixed) {
    if (row.why.empty() || !is_given(fields, row.key)) continue;
    const std::string value = fields.raw(row.key).dump();
    if (value == row.value) continue;
    fields.fail(row.key,
                value + ": " + std::string(row.why) + "; set it to " + std::string(row.value));
  }
}

void check_given(Fields& fields, const ConfigFile& file) {
  if (file.needs_ffn && !is_given(fields, file.sizes.ffn))
    fields.fail(file.sizes.ffn, "missing; it is required (an integer)");
  if (file.needs_kv_heads && !is_given(fields, file.sizes.kv_heads))
    fields.fail(file.sizes.kv_heads, "missing; it is required (an integer)");
}

// A model type that is built as another one: its config.json has the same keys with the same
// meaning.
struct SameAs {
  std::string_view model_type, as;
};
constexpr SameAs same_as[] = {
    {"kimi_k2", "deepseek_v3"},         {"ministral", "mistral"},      {"qwen3_vl_text", "qwen3"},
    {"qwen3_vl_moe_text", "qwen3_moe"}, {"qwen2_vl_text", "qwen2"},    {"qwen2_5_vl_text", "qwen2"},
    {"sarvam_moe", "glm4_moe"},         {"sarvam_mla", "deepseek_v3"}, {"emu3_text_model", "llama"},
};

constexpr std::string_view road =
    "`meshwright capture` makes a model of its PyTorch code (docs/own-model.md)";

// Returns the part for texts of a model that also reads images, sounds or films, or `fields` itself
// if it is no such model, or one that has its own reader.
Fields language_part_of(Fields fields, const std::vector<std::string>& known) {
  const auto type = fields.required<std::string>("model_type");
  if (std::ranges::find(known, type) != known.end() || !is_given(fields, "text_config"))
    return fields;
  Fields text = fields.object("text_config");
  return is_given(text, "model_type") ? text : fields;
}

ModelType model_type_of(Fields& fields) {
  const std::vector<ModelType> types = model_types();
  const std::vector<std::string> known = names_in(types);
  fields = language_part_of(fields, known);
  auto word = fields.required<std::string>("model_type");
  for (const SameAs& row : same_as)
    if (word == row.model_type)
      return *std::ranges::find_if(types,
                                   [&](const ModelType& each) { return each.name == row.as; });
  for (const UnbuiltType& row : unbuilt_types)
    if (word == row.model_type)
      fields.fail("model_type", "'" + word + "' needs " + std::string(row.lacks) +
                                    ", which meshwright lacks; " + std::string(road));
  const auto found = std::ranges::find(types, word, &ModelType::name);
  if (found != types.end()) return *found;
  const std::string near = nearest(word, known);
  fields.fail("model_type", "unknown model_type '" + word + "'" +
                                (near.empty() ? "" : ", did you mean '" + near + "'?") + "; " +
                                std::string(road) +
                                "; docs/models.md lists the model types that are built");
}

// Returns `text_config`, the part for texts of a model that also reads images. Throws InputError if
// it is missing or of another model type.
Fields text_of(Fields& fields, std::string_view of_text) {
  const std::string_view key = "text_config";
  if (!is_given(fields, key)) fields.fail(key, "missing; it is required (an object)");
  Fields text = fields.object(key);
  if (is_given(text, "model_type") && text.required<std::string>("model_type") != of_text)
    text.fail("model_type", "must be '" + std::string(of_text) + "'");
  return text;
}

std::string_view word_of(const Model& model, const ConfigFile& file) {
  return model.activation == Activation::gelu_tanh ? file.activation.values.tanh
                                                   : info(model.activation).word;
}

}  // namespace

Model read_huggingface(Fields fields) {
  const auto whole = fields.required<std::string>("model_type");
  const ModelType type = model_type_of(fields);
  const bool is_part = fields.required<std::string>("model_type") != whole;
  const ConfigFile& file = *type.file;
  if (file.in_text_config) fields = text_of(fields, name_of(type.architecture));
  Model model = model_of(type.architecture);
  model.name = is_part ? type.name + " of " + whole : type.name;  // the rest is not built
  check_fixed(fields, file);
  check_given(fields, file);
  for (const ConfigKey& row : file.early_keys) families::read_key(row, fields, model);
  read_sizes(fields, file.sizes, model);
  for (const ConfigKey& row : file.keys) families::read_key(row, fields, model);
  if (is_given(fields, file.activation.key))
    families::choose_activation(fields, file.activation.key, "activation",
                                file.activation.values.words, model);
  if (is_given(fields, file.epsilon)) model.norm_epsilon = fields.required<double>(file.epsilon);
  if (!(model.norm_epsilon >= 0 && model.norm_epsilon < 1))
    fields.fail(file.epsilon, "must be from 0 to 1");
  if (is_given(fields, "tie_word_embeddings") && !model.reads_images())
    model.tied_embeddings = fields.required<bool>("tie_word_embeddings");
  for (const ConfigKey& row : file.late_keys) families::read_key(row, fields, model);
  read_rotary(fields, model);
  read_head(fields, model);
  return model;
}

json huggingface_config(const Model& model) {
  if (model.imported)
    throw NotSupportedYet("a config.json cannot be written for a model from an ONNX file yet");
  if (model.captured)
    throw NotSupportedYet("a config.json cannot be written for a captured model yet");
  const ConfigFile& file = info(model.architecture).config;
  if (file.classes.generator.empty()) {
    std::vector<std::string> known;
    for (const ModelType& type : model_types())
      if (type.name == name_of(type.architecture)) known.push_back(type.name);
    throw NotSupportedYet("a config.json cannot be written for the architecture " +
                          std::string(name_of(model.architecture)) +
                          " yet; known: " + list_of(known, "and"));
  }
  json config = {{"architectures", {class_of(model)}},
                 {"model_type", name_of(model.architecture)},
                 {"dtype", "float32"},
                 {"torch_dtype", "float32"},  // read by older versions
                 {"tie_word_embeddings", model.tied_embeddings}};
  const auto set = [&](std::string_view key, const json& value) {
    if (!key.empty()) config[std::string(key)] = value;
  };
  set(file.sizes.hidden, model.hidden);
  set(file.sizes.layers, model.layers);
  set(file.sizes.heads, model.heads);
  set(file.sizes.kv_heads, model.kv_heads);
  set(file.sizes.ffn, model.ffn);
  set(file.sizes.vocabulary, model.vocabulary);
  if (model.positions > 0) set(file.sizes.positions, model.positions);
  set(file.epsilon, model.norm_epsilon);
  set(file.activation.key, word_of(model, file));
  for (const FixedKey& row : file.fixed)
    if (row.is_written) set(row.key, json::parse(row.value));
  if (model.classifies_text()) config["num_labels"] = model.classes;
  for (const auto& rows :
       {std::span<const ConfigKey>(file.early_keys), std::span<const ConfigKey>(file.keys),
        std::span<const ConfigKey>(file.late_keys)})
    for (const ConfigKey& row : rows) families::write_key(row, model, config);
  write_rotary(model, config);
  if (model.pad_token >= 0) config["pad_token_id"] = model.pad_token;
  return config;
}

}  // namespace meshwright::architectures
