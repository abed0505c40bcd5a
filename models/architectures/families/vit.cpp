// ViT reads square images as sequences of patches.

#include "models/architectures/families/config_keys.h"
#include "models/architectures/huggingface_head.h"
#include "models/core/json.h"

namespace meshwright::architectures::families {

namespace {

void read_vit(Fields& fields, Model& model) {
  read_image_sizes(fields, {"image_size", "patch_size", "num_channels"}, model);
  model.vocabulary = classes_of(fields);
  if (model.vocabulary < 1 || model.vocabulary > most_classes)
    fields.fail(is_given(fields, "num_labels") ? "num_labels" : "id2label",
                std::to_string(model.vocabulary) + " classes are out of range; use 1 to " +
                    std::to_string(most_classes));
}

void write_vit(const Model& model, json& config) {
  config["image_size"] = model.image_size;
  config["patch_size"] = model.patch_size;
  config["num_channels"] = model.channels;
  config["num_labels"] = model.vocabulary;
}

}  // namespace

constexpr ArchitectureInfo vit = {
    .name = "vit",
    .embeddings = {"vit.embeddings", "vit.embeddings.patch_embeddings.projection",
                   "vit.embeddings.position_embeddings"},
    .attention = {"attention.attention", "attention.attention.query", "attention.attention.key",
                  "attention.attention.value", "attention.output.dense"},
    .mlp = {"intermediate", "intermediate.gate", "intermediate.dense", "output.dense"},
    .norms = {"layernorm_before", "layernorm_after", "vit.layernorm"},
    .head = {"classifier", "classifier", "", "", "classifier.bias"},
    .class_token = "vit.embeddings.cls_token",
    .block = "vit.encoder.layer",
    .traits = {.family = Family::vit,
               .head = Head::label,
               .tied_embeddings = false,
               .learned_positions = true,
               .norm_epsilon = 1e-12},
    .config = {.classes = {"ViTForImageClassification"},
               .sizes = {.kv_heads = "", .vocabulary = "", .positions = ""},
               .epsilon = "layer_norm_eps",
               .activation = {older_gelu},
               .fixed = {{"qkv_bias", "true", "attention without biases is not built"}},
               .early_keys = {{.read = read_vit, .write = write_vit}}}};

}  // namespace meshwright::architectures::families
