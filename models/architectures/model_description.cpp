#include "models/architectures/model_description.h"

#include <tuple>

#include "models/architectures/architecture.h"
#include "models/architectures/captured/captured_model.h"
#include "models/architectures/onnx/imported_graph.h"
#include "models/core/hash.h"
#include "models/core/json.h"
#include "models/program/graph/op_table.h"
#include "models/program/program_fields.h"
#include "models/program/program_words.h"

namespace meshwright::architectures {

namespace {

template <class Value>
struct ModelField {
  const char* name;
  Value Model::*member;
};
template <class Value, class Owner>
ModelField(const char*, Value Owner::*) -> ModelField<Value>;

#define FIELD(name) ModelField(#name, &Model::name)
constexpr auto model_fields = std::tuple(
    FIELD(name), FIELD(family), FIELD(architecture), FIELD(head), FIELD(hidden), FIELD(layers),
    FIELD(heads), FIELD(kv_heads), FIELD(ffn), FIELD(positions), FIELD(embedding),
    FIELD(vocabulary), FIELD(classes), FIELD(pad_token), FIELD(decoder_start), FIELD(image_size),
    FIELD(patch_size), FIELD(channels), FIELD(gated_ffn), FIELD(activation_dropout),
    FIELD(tied_embeddings), FIELD(head_dim), FIELD(rms_norm), FIELD(learned_positions),
    FIELD(parallel_residual), FIELD(alibi), FIELD(one_norm), FIELD(biases), FIELD(norm_bias),
    FIELD(attention_bias), FIELD(attention_out_bias), FIELD(norm_epsilon), FIELD(rotary_base),
    FIELD(rotary_dim), FIELD(rotary_interleaved), FIELD(rotary_factor), FIELD(rotary_low),
    FIELD(rotary_high), FIELD(rotary_original), FIELD(rotary_yarn), FIELD(rotary_truncate),
    FIELD(score_factor), FIELD(query_key_norm), FIELD(one_plus_norms), FIELD(embedding_scale),
    FIELD(logit_scale), FIELD(residual_scale), FIELD(swiglu_limit), FIELD(attention_sinks),
    FIELD(score_width), FIELD(score_cap), FIELD(logit_cap), FIELD(token_types),
    FIELD(position_offset), FIELD(relative_buckets), FIELD(relative_distance), FIELD(local_window),
    FIELD(local_from), FIELD(local_to), FIELD(local_period), FIELD(global_place),
    FIELD(local_rotary_base), FIELD(unrotated_blocks), FIELD(attention_chunk), FIELD(temperature),
    FIELD(temperature_floor), FIELD(experts), FIELD(experts_per_token), FIELD(q_lora_rank),
    FIELD(kv_lora_rank), FIELD(v_head_dim), FIELD(dense_ffn), FIELD(dense_blocks),
    FIELD(shared_ffn), FIELD(shared_mean), FIELD(shared_gate), FIELD(sigmoid_scores),
    FIELD(expert_bias), FIELD(router_bias), FIELD(expert_biases), FIELD(expert_groups),
    FIELD(groups_per_token), FIELD(groups_by_two), FIELD(expert_weight_scale),
    FIELD(expert_weights_of_all), FIELD(weighed_inputs), FIELD(expert_dropless),
    FIELD(expert_rank_capacity_factor), FIELD(expert_overflow_drops), FIELD(expert_capacity_factor),
    FIELD(router_aux_loss_coef), FIELD(imported), FIELD(captured));
#undef FIELD

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
// `activation` has no row, because its values are described one by one. Traits count as one field
// of Model.
static_assert(std::tuple_size_v<decltype(model_fields)> + 2 ==
                  field_count<Model>() + field_count<Traits>(),
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
  constexpr const char* names[] = {"none", "rows", "heads", "turned", "heads_turned"};
  return names[static_cast<std::size_t>(norm)];
}

// Returns the attributes that differ from their defaults, as JSON. Only numbers and enumerators are
// written.
std::string text_of(const Attributes& attributes) {
  const Attributes usual;
  json text = json::object();
  for_each_field<Attributes>([&](const auto& field) {
    const auto& value = attributes.*field.member;
    using Value = std::decay_t<decltype(value)>;
    if (value == usual.*field.member) return;
    if constexpr (std::is_enum_v<Value>) text[std::string(field.name)] = program::word_of(value);
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

// Describes a captured model by the hash of the names and shapes of its weights.
json written(const std::shared_ptr<const CapturedModel>& model) {
  return model ? json(model->hash) : json();
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
  const auto describe = [&](std::string_view name, bool value) {
    description[std::string(name)] = json(value).dump();
  };
  for (const ActivationInfo& row : activation_table)
    if (!row.described.empty()) describe(row.described, model.activation == row.activation);
  const bool is_tanh = model.activation == Activation::gelu_tanh;
  describe("gated_gelu", model.gated_ffn && is_tanh);
  // Checkpoints of older versions describe the family's activation even if a gated MLP has another.
  const bool is_usual = !model.imported && model.activation == Activation::silu;
  const Activation usual = info(model.architecture).traits.activation;
  describe("gelu_tanh", is_tanh || (is_usual && usual == Activation::gelu_tanh));
  return description;
}

}  // namespace meshwright::architectures
