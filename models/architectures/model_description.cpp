#include "models/architectures/model_description.h"

#include <nlohmann/json.hpp>
#include <tuple>

#include "models/architectures/onnx/imported_graph.h"
#include "models/core/hash.h"
#include "models/program/graph/op_table.h"
#include "models/program/program_fields.h"
#include "models/program/program_words.h"

namespace meshwright {

namespace {

using nlohmann::json;

template <class Value>
struct ModelField {
  const char* name;
  Value Model::*member;
};
template <class Value>
ModelField(const char*, Value Model::*) -> ModelField<Value>;

constexpr auto model_fields = std::tuple(
    ModelField{"name", &Model::name}, ModelField{"family", &Model::family},
    ModelField{"architecture", &Model::architecture}, ModelField{"head", &Model::head},
    ModelField{"hidden", &Model::hidden}, ModelField{"layers", &Model::layers},
    ModelField{"heads", &Model::heads}, ModelField{"kv_heads", &Model::kv_heads},
    ModelField{"ffn", &Model::ffn}, ModelField{"positions", &Model::positions},
    ModelField{"embedding", &Model::embedding}, ModelField{"vocabulary", &Model::vocabulary},
    ModelField{"classes", &Model::classes}, ModelField{"pad_token", &Model::pad_token},
    ModelField{"decoder_start", &Model::decoder_start},
    ModelField{"image_size", &Model::image_size}, ModelField{"patch_size", &Model::patch_size},
    ModelField{"channels", &Model::channels}, ModelField{"gated_ffn", &Model::gated_ffn},
    ModelField{"gated_gelu", &Model::gated_gelu}, ModelField{"relu", &Model::relu},
    ModelField{"squared_relu", &Model::squared_relu},
    ModelField{"activation_dropout", &Model::activation_dropout},
    ModelField{"tied_embeddings", &Model::tied_embeddings},
    ModelField{"head_dim", &Model::head_dim}, ModelField{"rms_norm", &Model::rms_norm},
    ModelField{"learned_positions", &Model::learned_positions},
    ModelField{"parallel_residual", &Model::parallel_residual}, ModelField{"alibi", &Model::alibi},
    ModelField{"one_norm", &Model::one_norm}, ModelField{"biases", &Model::biases},
    ModelField{"norm_bias", &Model::norm_bias},
    ModelField{"attention_bias", &Model::attention_bias},
    ModelField{"attention_out_bias", &Model::attention_out_bias},
    ModelField{"gelu_tanh", &Model::gelu_tanh}, ModelField{"norm_epsilon", &Model::norm_epsilon},
    ModelField{"rotary_base", &Model::rotary_base}, ModelField{"rotary_dim", &Model::rotary_dim},
    ModelField{"rotary_interleaved", &Model::rotary_interleaved},
    ModelField{"rotary_factor", &Model::rotary_factor},
    ModelField{"rotary_low", &Model::rotary_low}, ModelField{"rotary_high", &Model::rotary_high},
    ModelField{"rotary_original", &Model::rotary_original},
    ModelField{"rotary_yarn", &Model::rotary_yarn},
    ModelField{"rotary_truncate", &Model::rotary_truncate},
    ModelField{"score_factor", &Model::score_factor},
    ModelField{"query_key_norm", &Model::query_key_norm},
    ModelField{"one_plus_norms", &Model::one_plus_norms},
    ModelField{"embedding_scale", &Model::embedding_scale},
    ModelField{"logit_scale", &Model::logit_scale},
    ModelField{"residual_scale", &Model::residual_scale},
    ModelField{"swiglu_limit", &Model::swiglu_limit},
    ModelField{"attention_sinks", &Model::attention_sinks},
    ModelField{"score_width", &Model::score_width}, ModelField{"score_cap", &Model::score_cap},
    ModelField{"logit_cap", &Model::logit_cap}, ModelField{"token_types", &Model::token_types},
    ModelField{"position_offset", &Model::position_offset},
    ModelField{"relative_buckets", &Model::relative_buckets},
    ModelField{"relative_distance", &Model::relative_distance},
    ModelField{"local_window", &Model::local_window}, ModelField{"local_from", &Model::local_from},
    ModelField{"local_period", &Model::local_period},
    ModelField{"global_place", &Model::global_place},
    ModelField{"local_rotary_base", &Model::local_rotary_base},
    ModelField{"unrotated_blocks", &Model::unrotated_blocks},
    ModelField{"attention_chunk", &Model::attention_chunk},
    ModelField{"temperature", &Model::temperature},
    ModelField{"temperature_floor", &Model::temperature_floor},
    ModelField{"experts", &Model::experts},
    ModelField{"experts_per_token", &Model::experts_per_token},
    ModelField{"q_lora_rank", &Model::q_lora_rank},
    ModelField{"kv_lora_rank", &Model::kv_lora_rank}, ModelField{"v_head_dim", &Model::v_head_dim},
    ModelField{"dense_ffn", &Model::dense_ffn}, ModelField{"dense_blocks", &Model::dense_blocks},
    ModelField{"shared_ffn", &Model::shared_ffn}, ModelField{"shared_gate", &Model::shared_gate},
    ModelField{"sigmoid_scores", &Model::sigmoid_scores},
    ModelField{"expert_bias", &Model::expert_bias}, ModelField{"router_bias", &Model::router_bias},
    ModelField{"expert_biases", &Model::expert_biases},
    ModelField{"expert_groups", &Model::expert_groups},
    ModelField{"groups_per_token", &Model::groups_per_token},
    ModelField{"groups_by_two", &Model::groups_by_two},
    ModelField{"expert_weight_scale", &Model::expert_weight_scale},
    ModelField{"expert_weights_of_all", &Model::expert_weights_of_all},
    ModelField{"weighed_inputs", &Model::weighed_inputs},
    ModelField{"expert_dropless", &Model::expert_dropless},
    ModelField{"expert_rank_capacity_factor", &Model::expert_rank_capacity_factor},
    ModelField{"expert_overflow_drops", &Model::expert_overflow_drops},
    ModelField{"expert_capacity_factor", &Model::expert_capacity_factor},
    ModelField{"router_aux_loss_coef", &Model::router_aux_loss_coef},
    ModelField{"imported", &Model::imported});

// Converts to the type of any field. The number of fields of a struct is the largest number of
// these values that can initialize it.
struct OfAnyType {
  template <class T>
  operator T() const;  // NOLINT: implicit on purpose; never called
};
template <class T, class... Values>
consteval std::size_t field_count() {
  if constexpr (requires { T{Values{}..., OfAnyType{}}; })
    return field_count<T, Values..., OfAnyType>();
  else
    return sizeof...(Values);
}
static_assert(std::tuple_size_v<decltype(model_fields)> == field_count<Model>(),
              "a field of Model has no row here, so checkpoints would not tell models apart by it");

template <class T>
json written(const T& value) {
  return value;
}
json written(Architecture architecture) { return name_of(architecture); }
json written(Family family) {
  constexpr const char* names[] = {"gpt",  "llama",    "bert",    "mpt",     "bloom",
                                   "gptj", "gpt_neox", "mixtral", "seq2seq", "vit"};
  return names[static_cast<std::size_t>(family)];
}
json written(Head head) {
  constexpr const char* names[] = {"lm", "mlm", "qa", "classification"};
  return names[static_cast<std::size_t>(head)];
}
json written(QueryKeyNorm norm) {
  constexpr const char* names[] = {"none", "rows", "heads", "turned"};
  return names[static_cast<std::size_t>(norm)];
}

// Returns the attributes that differ from their defaults, as JSON. Only numbers and enumerators are
// written, because imported operations set no other attributes.
std::string text_of(const Attributes& attributes) {
  const Attributes usual;
  json text = json::object();
  for_each_field<Attributes>([&](const auto& field) {
    const auto& value = attributes.*field.member;
    using Value = std::decay_t<decltype(value)>;
    if (value == usual.*field.member) return;
    if constexpr (std::is_enum_v<Value>) text[std::string(field.name)] = word_of(value);
    if constexpr (std::is_arithmetic_v<Value>) text[std::string(field.name)] = value;
  });
  return text.dump();
}

// Describes an ONNX file by a hash of what it computes, since the file may be saved again or moved.
json written(const std::shared_ptr<const ImportedGraph>& graph) {
  if (!graph) return nullptr;
  std::string text;
  for (const ImportedParameter& each : graph->parameters)
    text += each.name + json(each.shape.dims).dump();
  for (const ImportedOperation& each : graph->operations) {
    text += std::string(info(each.op).name) + " " + each.module + text_of(each.attributes);
    for (const ImportedOperation::Operand& input : each.inputs)
      text +=
          " " + std::to_string(static_cast<int>(input.kind)) + ":" + std::to_string(input.index);
  }
  return hash_of(text);
}

}  // namespace

std::map<std::string, std::string> description_of(const Model& model) {
  std::map<std::string, std::string> description;
  std::apply(
      [&](const auto&... each) {
        ((description[each.name] = written(model.*each.member).dump()), ...);
      },
      model_fields);
  description.erase("name");  // for people
  return description;
}

}  // namespace meshwright
