// Describes BERT, RoBERTa and the models with RoBERTa's names, DistilBERT and ALBERT.

#include "models/architectures/families/config_keys.h"
#include "models/core/json.h"

namespace meshwright::architectures::families {

namespace {

void read_token_types(Fields& fields, Model& model) {
  model.token_types = 2;
  if (is_given(fields, "type_vocab_size"))
    model.token_types = fields.required<int>("type_vocab_size");
  if (model.token_types < 1 || model.token_types > 1 << 20)
    fields.fail("type_vocab_size", "must be 1 or more");
}

void write_token_types(const Model& model, json& config) {
  config["type_vocab_size"] = model.token_types;
}

// Reads where positions begin. RoBERTa's table of positions has rows for the padding token and the
// tokens before it, so positions start after these rows.
void read_position_offset(Fields& fields, Model& model) {
  if (is_given(fields, "pad_token_id"))
    model.position_offset = fields.required<int>("pad_token_id") + 1;
  model.positions -= model.position_offset;
  if (model.position_offset < 0 || model.positions < 1)
    fields.fail("max_position_embeddings",
                "no position is left after the padding token's; use more positions");
}

void write_position_offset(const Model& model, json& config) {
  if (model.position_offset == 0) return;
  config["max_position_embeddings"] = model.positions + model.position_offset;
  config["pad_token_id"] = model.position_offset - 1;
}

// Reads the width of ALBERT's tables and of its head.
void read_table_width(Fields& fields, Model& model) {
  model.embedding =
      is_given(fields, "embedding_size") ? fields.required<int>("embedding_size") : 128;
  if (model.embedding < 1 || model.embedding > model.hidden)
    fields.fail("embedding_size", std::to_string(model.embedding) +
                                      " is out of range; use 1 to hidden_size " +
                                      std::to_string(model.hidden));
}

void write_table_width(const Model& model, json& config) {
  config["embedding_size"] = model.embedding;
}

constexpr ConfigKey token_types{.read = read_token_types, .write = write_token_types};
constexpr FixedKey absolute_positions{"position_embedding_type", "\"absolute\"",
                                      "relative positions are not built"};
constexpr FixedKey no_cross_attention{"add_cross_attention", "false",
                                      "cross-attention is not built"};

constexpr ConfigFile roberta_config = {
    .classes = {"RobertaForMaskedLM", "RobertaForQuestionAnswering"},
    .sizes = {.kv_heads = ""},
    .epsilon = "layer_norm_eps",
    .activation = {older_gelu},
    .fixed = {absolute_positions,
              {"is_decoder", "false", "RoBERTa as a decoder is not built"},
              no_cross_attention},
    .late_keys = {token_types, {.read = read_position_offset, .write = write_position_offset}}};

constexpr ConfigFile roberta_as(std::string_view model_type) {
  ConfigFile file = roberta_config;
  file.model_type = model_type;
  return file;
}
constexpr ConfigFile like_roberta[] = {roberta_as("camembert"), roberta_as("xlm-roberta")};

}  // namespace

constexpr ArchitectureInfo bert = {
    .name = "bert",
    .embeddings = {"bert.embeddings", "bert.embeddings.word_embeddings",
                   "bert.embeddings.position_embeddings", "bert.embeddings.token_type_embeddings",
                   "bert.embeddings.LayerNorm"},
    .attention = {"attention.self", "attention.self.query", "attention.self.key",
                  "attention.self.value", "attention.output.dense"},
    .mlp = {"intermediate", "intermediate.gate", "intermediate.dense", "output.dense"},
    .norms = {"attention.output.LayerNorm", "output.LayerNorm"},
    .head = {"cls", "cls.predictions.decoder", "cls.predictions.transform.dense",
             "cls.predictions.transform.LayerNorm", "cls.predictions.bias"},
    .block = "bert.encoder.layer",
    .class_dense = "bert.pooler.dense",
    .class_output = "classifier",
    .post_norm = true,
    .traits = {.family = Family::bert,
               .head = Head::mlm,
               .learned_positions = true,
               .norm_epsilon = 1e-12,
               .token_types = 2},
    .config = {.classes = {"BertForMaskedLM", "BertForQuestionAnswering"},
               .sizes = {.kv_heads = ""},
               .epsilon = "layer_norm_eps",
               .activation = {older_gelu},
               .fixed = {absolute_positions,
                         {"is_decoder", "false", "BERT as a decoder is not built"},
                         no_cross_attention},
               .late_keys = {token_types}}};

constexpr ArchitectureInfo roberta = [] {
  ArchitectureInfo row = bert;
  row.name = "roberta";
  row.embeddings = {"roberta.embeddings", "roberta.embeddings.word_embeddings",
                    "roberta.embeddings.position_embeddings",
                    "roberta.embeddings.token_type_embeddings", "roberta.embeddings.LayerNorm"};
  row.block = "roberta.encoder.layer";
  row.head = {"lm_head", "lm_head.decoder", "lm_head.dense", "lm_head.layer_norm", "lm_head.bias"};
  row.class_dense = "classifier.dense";
  row.class_output = "classifier.out_proj";
  row.class_dropout = true;
  row.traits.token_types = 1;
  row.traits.position_offset = 2;
  row.config = roberta_config;
  row.other_configs = like_roberta;
  return row;
}();

constexpr ArchitectureInfo distilbert = {
    .name = "distilbert",
    .embeddings = {"distilbert.embeddings", "distilbert.embeddings.word_embeddings",
                   "distilbert.embeddings.position_embeddings", "",
                   "distilbert.embeddings.LayerNorm"},
    .attention = {"attention", "attention.q_lin", "attention.k_lin", "attention.v_lin",
                  "attention.out_lin"},
    .mlp = {"ffn", "ffn.gate", "ffn.lin1", "ffn.lin2"},
    .norms = {"sa_layer_norm", "output_layer_norm"},
    .head = {"vocab_projector", "vocab_projector", "vocab_transform", "vocab_layer_norm",
             "vocab_projector.bias"},
    .block = "distilbert.transformer.layer",
    .class_dense = "pre_classifier",
    .class_output = "classifier",
    .post_norm = true,
    .class_relu = true,
    .traits = {.family = Family::bert,
               .head = Head::mlm,
               .learned_positions = true,
               .norm_epsilon = 1e-12},
    .config = {.classes = {"DistilBertForMaskedLM", "DistilBertForQuestionAnswering"},
               .sizes = {"dim", "n_layers", "n_heads", "", "hidden_dim"},
               .epsilon = "",
               .activation = {older_gelu, "activation"},
               .fixed = {{"sinusoidal_pos_embds", "false",
                          "positions that are not trained are not built"}}}};

constexpr ArchitectureInfo albert = {
    .name = "albert",
    .embeddings = {"albert.embeddings", "albert.embeddings.word_embeddings",
                   "albert.embeddings.position_embeddings",
                   "albert.embeddings.token_type_embeddings", "albert.embeddings.LayerNorm"},
    .attention = {"attention", "attention.query", "attention.key", "attention.value",
                  "attention.dense"},
    .mlp = {"ffn", "ffn_gate", "ffn", "ffn_output"},
    .norms = {"attention.LayerNorm", "full_layer_layer_norm"},
    .head = {"predictions", "predictions.decoder", "predictions.dense", "predictions.LayerNorm",
             "predictions.bias"},
    .embedding_projection = "albert.encoder.embedding_hidden_mapping_in",
    .block = "albert.encoder.layer",
    .shared_block = "albert.encoder.albert_layer_groups.0.albert_layers.0",
    .class_dense = "albert.pooler",
    .class_output = "classifier",
    .post_norm = true,
    .traits = {.family = Family::bert,
               .head = Head::mlm,
               .learned_positions = true,
               .activation = Activation::gelu_tanh,
               .norm_epsilon = 1e-12,
               .token_types = 2},
    .config = {.classes = {"AlbertForMaskedLM", "AlbertForQuestionAnswering"},
               .sizes = {.kv_heads = ""},
               .epsilon = "layer_norm_eps",
               .activation = {older_gelu},
               .fixed = {{"num_hidden_groups", "1", "several groups of layers are not built"},
                         {"inner_group_num", "1", "groups of several layers are not built"},
                         absolute_positions},
               .late_keys = {token_types, {.read = read_table_width, .write = write_table_width}}}};

}  // namespace meshwright::architectures::families
